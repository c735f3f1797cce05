# Every directory of src/ is a room: one object library.  alibi_room(NAME sources...) makes it;
# alibi_registry(TYPE PREFIX names...) turns a list of names into the source list and the registry at once:
# PREFIX_names.inc declares `extern const TYPE PREFIX_<name>;` and lists them in order.

set(ALIBI_GENERATED ${CMAKE_BINARY_DIR}/generated)

function(alibi_room name)
  add_library(room_${name} OBJECT ${ARGN})
  target_include_directories(room_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
                                                 ${ALIBI_GENERATED})
  target_link_libraries(room_${name} PUBLIC OpenMP::OpenMP_C m)
endfunction()

# A name with '-' is a C identifier with '_'.
function(alibi_registry type prefix)
  set(declarations "")
  set(rows "")
  foreach(entry IN LISTS ARGN)
    string(REPLACE "-" "_" identifier ${entry})
    string(APPEND declarations "extern const ${type} ${prefix}_${identifier};\n")
    string(APPEND rows "  &${prefix}_${identifier},\n")
  endforeach()
  string(TOUPPER ${prefix} upper)
  file(CONFIGURE OUTPUT ${ALIBI_GENERATED}/${prefix}_registry.inc CONTENT
"/* Generated from CMakeLists.txt: the rows of the registry, in order. */
${declarations}
static const ${type} *const ${prefix}_registry[] = {
${rows}};
enum { ${upper}_COUNT = sizeof ${prefix}_registry / sizeof ${prefix}_registry[0] };
")
endfunction()
