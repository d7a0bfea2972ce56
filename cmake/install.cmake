# What is installed: both libraries, headers, redoubt.pc, and the CMake package Redoubt (component "static" for the archive).
include(CMakePackageConfigHelpers)
set(REDOUBT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Redoubt)

install(TARGETS redoubt EXPORT RedoubtTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS redoubt_static EXPORT RedoubtStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT RedoubtTargets NAMESPACE Redoubt:: DESTINATION ${REDOUBT_CMAKE_DIR})
install(EXPORT RedoubtStaticTargets NAMESPACE Redoubt:: DESTINATION ${REDOUBT_CMAKE_DIR})
install(DIRECTORY include/redoubt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(cmake/RedoubtConfig.cmake.in RedoubtConfig.cmake
                              INSTALL_DESTINATION ${REDOUBT_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(RedoubtConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/RedoubtConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/RedoubtConfigVersion.cmake
        DESTINATION ${REDOUBT_CMAKE_DIR})

# Relative to where the file lies, so that `cmake --install --prefix` may choose another place.
file(RELATIVE_PATH REDOUBT_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" REDOUBT_PC_PREFIX ${REDOUBT_PC_PREFIX})
configure_file(cmake/redoubt.pc.in redoubt.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/redoubt.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
