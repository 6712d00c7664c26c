// Closed choices: one enum each, with one table of names for all code that reads, writes or explains the choice.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

template <class E>
struct Choice {
  E value;
  const char* name;
  bool may_be_given = true;  // accepted in a sweep or on the command line; false: only the harness sets it
};

// Specialised next to each enum: `all`, the choices in the order in which help and errors name them.
template <class E>
struct Choices;

// An enum with a table of names.
template <class E>
concept ClosedChoice = requires {
  Choices<E>::all;
};

template <ClosedChoice E>
std::string choice_name(E value) {
  for (const Choice<E>& choice : Choices<E>::all)
    if (choice.value == value) return choice.name;
  return "?";
}

// The choice with this name, among those that a user may give.
template <ClosedChoice E>
std::optional<E> choice_named(std::string_view name) {
  for (const Choice<E>& choice : Choices<E>::all)
    if (choice.may_be_given && choice.name == name) return choice.value;
  return std::nullopt;
}

// The names that a user may give.
template <ClosedChoice E>
std::vector<std::string> choice_names() {
  std::vector<std::string> names;
  for (const Choice<E>& choice : Choices<E>::all)
    if (choice.may_be_given) names.emplace_back(choice.name);
  return names;
}

}  // namespace sluice
