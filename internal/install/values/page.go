package values

import (
	"encoding/json"
	"fmt"

	"slipway.dev/slipway/api/declare"
)

// Page returns the reference page of the charts' values in Markdown, one table
// for each chart.
func Page(charts ...Catalogue) ([]byte, error) {
	var page declare.Page
	page.WriteString("# Values of the charts\n\n")
	page.WriteString("<!-- Written by make generate from internal/install/values. -->\n\n")
	page.WriteString("Helm checks values against the schema of a chart before it renders anything. `slipway helm validate --values FILE` checks a file\n" +
		"without an installation, and reports all errors at once.\n")
	for _, chart := range charts {
		page.Printf("\n## %s\n\n%s\n\n", chart.Chart, chart.About)
		page.Table("Key", "Default", "Description")
		for _, value := range chart.Values {
			shown, err := value.shownDefault()
			if err != nil {
				return nil, err
			}
			page.Row(declare.Code(value.Key), shown, value.explained())
		}
	}
	return []byte(page.String()), nil
}

// explained returns the description with rule and alias.
func (v Value) explained() string {
	text := v.About
	if words := v.Rule.words(); words != "" {
		text += " Allowed: " + words + "."
	}
	if v.Kind == Count {
		text += fmt.Sprintf(" From %d to %d.", v.Rule.Least, v.Rule.Most)
	}
	if v.Alias != "" {
		text += " `" + v.Alias + "` is read as well."
	}
	return text
}

// shownDefault formats the default.
func (v Value) shownDefault() (string, error) {
	given, there := v.initial()
	// An empty cell is both an empty text and a value without a default.
	if !there || given == "" {
		return "", nil
	}
	encoded, err := json.Marshal(given)
	if err != nil {
		return "", fmt.Errorf("show the default of %s: %w", v.Key, err)
	}
	return declare.Code(string(encoded)), nil
}
