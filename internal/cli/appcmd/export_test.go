package appcmd

// EqualLabels takes a selector apart.
func EqualLabels(selector string) ([]string, error) { return equalLabels(selector) }
