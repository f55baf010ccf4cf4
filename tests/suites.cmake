# ctest reads this for each GoogleTest program when it starts: every suite is a test of its own. (Every
# single test as a process would be thousands of starts of libtorch, a third of a second each.)
#
# In:  program, label, directory (where it runs)
if(NOT EXISTS "${program}")
  add_test("${label}/not_built" "${program}")
  set_tests_properties("${label}/not_built" PROPERTIES LABELS "${label}")
  return()
endif()
execute_process(COMMAND "${program}" --gtest_list_tests WORKING_DIRECTORY "${directory}"
  OUTPUT_VARIABLE listed RESULT_VARIABLE code TIMEOUT 60)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${program} --gtest_list_tests: ${code}")
endif()
# A suite's line is "Name." or "Name.  # TypeParam = ..."; its tests follow, indented.
string(REGEX MATCHALL "(^|\n)[^ \n]+\\.( |\n)" suites "${listed}")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[ \n]|\\.[ \n]?$" "" suite "${suite}")
  add_test("${label}/${suite}" "${program}" "--gtest_filter=${suite}.*" --gtest_brief=1)
  set_tests_properties("${label}/${suite}" PROPERTIES LABELS "${label}" TIMEOUT 1800
    WORKING_DIRECTORY "${directory}" ENVIRONMENT "GRAFT_CACHE_DIR=off")
endforeach()
