package action

// addActions adds the result of a discovery script: a table by name. An empty
// table is a list.
func addActions(to map[string]Action, result any) {
	found, _ := result.(map[string]any)
	for name, value := range found {
		one := Action{Name: name}
		if details, ok := value.(map[string]any); ok {
			one.Disabled, _ = details["disabled"].(bool)
			one.DisplayName, _ = details["displayName"].(string)
			one.Parameters = parameterNames(details["params"])
		}
		to[name] = one
	}
}

// parameterNames returns the names of parameters.
func parameterNames(parameters any) []string {
	var names []string
	list, _ := parameters.([]any)
	for _, element := range list {
		fields, _ := element.(map[string]any)
		if name, ok := fields["name"].(string); ok {
			names = append(names, name)
		}
	}
	return names
}
