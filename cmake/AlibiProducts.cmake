# What is installed: the command, libalibi.so, libalibi.a, the headers, alibi.pc.  Both libraries show the names
# alibi_* and nothing else, so that they can be linked into any program.

function(alibi_products)
  set(objects ${ARGN})

  add_library(alibi_shared SHARED ${objects})
  set_target_properties(alibi_shared PROPERTIES OUTPUT_NAME alibi VERSION ${PROJECT_VERSION}
                                                SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                                LINKER_LANGUAGE C)
  target_include_directories(alibi_shared PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_link_libraries(alibi_shared PRIVATE OpenMP::OpenMP_C ${ALIBI_LIBRARIES} ${CMAKE_DL_LIBS} m)
  if(NOT ALIBI_SANITIZE) # the sanitizer's own symbols come from the program
    target_link_options(alibi_shared PRIVATE LINKER:--no-undefined)
  endif()

  # An archive has no visibility.  The objects are linked into one, whose internal names are then made local.
  set(joined ${CMAKE_BINARY_DIR}/alibi_joined.o)
  add_custom_command(
    OUTPUT ${joined}
    COMMAND ${CMAKE_LINKER} -r -o ${joined} ${objects}
    COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=alibi_*" ${joined}
    DEPENDS ${objects}
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Joining the objects of libalibi.a")
  add_library(alibi_static STATIC ${joined})
  set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(alibi_static PROPERTIES OUTPUT_NAME alibi LINKER_LANGUAGE C)
  target_include_directories(alibi_static PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
  target_link_libraries(alibi_static PUBLIC OpenMP::OpenMP_C ${ALIBI_LIBRARIES} ${CMAKE_DL_LIBS} m)

  # For programs that link the archive, `pkg-config --static alibi`: libgomp or libomp lies beside its compiler.
  set(OPENMP_LIBRARY "")
  foreach(name IN LISTS OpenMP_C_LIB_NAMES)
    if(name MATCHES "omp")
      get_filename_component(place ${OpenMP_${name}_LIBRARY} DIRECTORY)
      string(APPEND OPENMP_LIBRARY " -L${place} -l${name}")
    endif()
  endforeach()
  # Relative, so that `cmake --install --prefix` and a moved folder stay right.
  file(RELATIVE_PATH PREFIX_FROM_PC "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/alibi.pc.in ${CMAKE_BINARY_DIR}/alibi.pc @ONLY)

  add_custom_target(products DEPENDS alibi alibi_shared alibi_static)
  install(TARGETS alibi alibi_shared alibi_static RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/alibi DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h")
  install(FILES ${CMAKE_BINARY_DIR}/alibi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
