"""What the checks in Python share: an expectation that is told and counted where it fails."""


def expect(condition, text):
    if not condition:
        expect.failed += 1
        print(f"FAIL  {text}")


expect.failed = 0
