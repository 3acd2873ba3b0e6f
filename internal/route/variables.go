package route

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxTextParts bounds the parts of a text with variables, and so the work of a request.
const maxTextParts = 64

// VariablePart is a part of a text with variables of nginx: a literal, or a variable.
type VariablePart struct {
	Literal string
	// Variable is its name, empty for a literal. Those that end with an underscore,
	// such as http_, have the rest of the name in Name.
	Variable, Name string
}

// textVariables are the variables that texts can have. All are about the request as
// the client sent it.
var textVariables = map[string]bool{
	"scheme": true, "pass_access_scheme": true, "https": true,
	"host": true, "http_host": true, "best_http_host": true,
	"request_uri": true, "escaped_request_uri": true, "uri": true, "document_uri": true,
	"args": true, "query_string": true, "is_args": true, "request_method": true,
	"remote_addr": true, "the_real_ip": true, "server_port": true, "pass_port": true, "pass_server_port": true,
}

// textFamilies are the prefixes of variables that name a header, a cookie or a
// parameter of the query.
var textFamilies = []string{"http_", "cookie_", "arg_"}

// ParseVariables splits a text with variables, $name and ${name}. A variable that is not
// known is an error, and so is a $ without a name.
func ParseVariables(text string) ([]VariablePart, error) {
	var parts []VariablePart
	for text != "" {
		if len(parts) >= maxTextParts {
			return nil, fmt.Errorf("it has more than %d variables: use fewer", maxTextParts/2)
		}
		before, rest, found := strings.Cut(text, "$")
		if before != "" {
			parts = append(parts, VariablePart{Literal: before})
		}
		if !found {
			return parts, nil
		}
		name, after := cutVariable(rest)
		part, known := variablePart(name)
		switch {
		case name == "":
			return nil, fmt.Errorf("%s has a $ without a name", shorten(text))
		case !known:
			return nil, fmt.Errorf("there is no variable $%.64s here: use one of $%s, $http_NAME, $cookie_NAME, $arg_NAME",
				name, strings.Join(slices.Sorted(maps.Keys(textVariables)), ", $"))
		}
		parts, text = append(parts, part), after
	}
	return parts, nil
}

// variablePart returns the part of a variable.
func variablePart(name string) (VariablePart, bool) {
	if textVariables[name] {
		return VariablePart{Variable: name}, true
	}
	for _, family := range textFamilies {
		if rest, found := strings.CutPrefix(name, family); found && rest != "" {
			return VariablePart{Variable: family, Name: rest}, true
		}
	}
	return VariablePart{}, false
}

// cutVariable cuts the name of a variable off the text behind its $.
func cutVariable(text string) (name, rest string) {
	if inner, braced := strings.CutPrefix(text, "{"); braced {
		name, rest, found := strings.Cut(inner, "}")
		if !found || variableEnd(name) != len(name) {
			return "", ""
		}
		return name, rest
	}
	end := variableEnd(text)
	return text[:end], text[end:]
}

// variableEnd returns the length of the name that a text starts with.
func variableEnd(text string) int {
	for i := range len(text) {
		if c := text[i]; c != '_' && c-'0' > 9 && c|0x20-'a' > 25 {
			return i
		}
	}
	return len(text)
}
