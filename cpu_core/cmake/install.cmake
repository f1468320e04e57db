# What `cmake --install` puts in place: headers, library, CMake package and pkg-config file.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS hptp hptp_headers EXPORT hptp-targets)

set(HPTP_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hptp)
install(EXPORT hptp-targets NAMESPACE hptp:: DESTINATION ${HPTP_PACKAGE_DIR})
configure_package_config_file(cmake/hptp-config.cmake.in hptp-config.cmake
                              INSTALL_DESTINATION ${HPTP_PACKAGE_DIR})
write_basic_package_version_file(hptp-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hptp-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/hptp-config-version.cmake DESTINATION ${HPTP_PACKAGE_DIR})

configure_file(cmake/hptp.pc.in hptp.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hptp.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
