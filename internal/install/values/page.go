package values

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Page returns the reference page of the charts' values in Markdown, one table
// for each chart.
func Page(charts ...Catalogue) ([]byte, error) {
	var text strings.Builder
	text.WriteString("# Values of the charts\n\n")
	text.WriteString("<!-- Written by make generate from internal/install/values. -->\n\n")
	text.WriteString("Helm checks values against the schema of a chart before it renders anything. `slipway helm validate` checks a file\n" +
		"without an installation, and says everything that is wrong at once.\n")
	for _, chart := range charts {
		fmt.Fprintf(&text, "\n## %s\n\n%s\n\n| Key | Default | What it is for |\n|---|---|---|\n", chart.Chart, chart.About)
		for _, value := range chart.Values {
			shown, err := value.shownDefault()
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&text, "| `%s` | %s | %s |\n", value.Key, shown, cell(value.explained()))
		}
	}
	return []byte(text.String()), nil
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
	return "`" + cell(string(encoded)) + "`", nil
}

// cell escapes a text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
