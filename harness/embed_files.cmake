# cmake -DFOLDER=plots/page -DTABLE=kPageFiles -DOUTPUT=page_files.cpp -P embed_files.cmake: defines a table
# (base/embedded_files.h) of the files of a folder.
file(GLOB files ${FOLDER}/*)
set(table "")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND table "    {\"${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"harness/base/embedded_files.h\"

namespace sluice {

static constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
${table}};
extern const EmbeddedFiles ${TABLE};
const EmbeddedFiles ${TABLE} = kFiles;

}  // namespace sluice
")
