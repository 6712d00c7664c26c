# cmake -DFOLDER=plots/page -DOUTPUT=page_files.cpp -P embed_files.cmake: defines kPageFiles (page_files.h), the files
# of a folder by name.
file(GLOB files ${FOLDER}/*)
set(table "")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND table "    {\"${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"plots/page_files.h\"

namespace sluice {

static constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
${table}};
const std::span<const std::pair<std::string_view, std::string_view>> kPageFiles = kFiles;

}  // namespace sluice
")
