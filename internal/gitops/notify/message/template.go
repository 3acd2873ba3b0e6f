package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
)

const (
	// maxText bounds one rendered text. No receiver takes more.
	maxText = 1 << 20
	// repositoryOfApp and revisionOfApp are the defaults of fields. Argo CD's have no
	// value for Applications with several sources.
	repositoryOfApp = `{{with .app.spec.source}}{{.repoURL}}{{else}}{{with .app.spec.sources}}{{(index . 0).repoURL}}{{end}}{{end}}`
	revisionOfApp   = `{{with .app.status.operationState}}{{with .syncResult}}{{if .revision}}{{.revision}}{{else if .revisions}}{{index .revisions 0}}{{end}}{{end}}{{end}}`
)

// sectionDefaults are the templates of fields that a section leaves out.
func sectionDefaults(kind string) map[string]any {
	switch kind {
	case "github", "gitlab":
		return map[string]any{"repoURLPath": repositoryOfApp, "revisionPath": revisionOfApp}
	case "alertmanager":
		return map[string]any{"generatorURL": repositoryOfApp}
	}
	return nil
}

// render renders the templates. Of each only what the service needs is rendered: a
// mistake in the section of another service does not cost this message.
func (r *Request) render(variables map[string]any) (*Message, error) {
	functions := template.FuncMap(sprig.TxtFuncMap())
	delete(functions, "env")
	delete(functions, "expandenv")
	message := &Message{}
	var section map[string]any
	for _, one := range r.Templates {
		given := map[string]any{}
		if err := yaml.Unmarshal([]byte(one.Text), &given); err != nil {
			return nil, fmt.Errorf("the template %s is no YAML: %w", one.Name, err)
		}
		if text, isText := given["message"].(string); isText {
			rendered, err := renderText(one.Name+".message", text, functions, variables)
			if err != nil {
				return nil, err
			}
			if rendered != "" {
				message.Text = rendered
			}
		}
		own := r.sectionOf(given)
		if own == nil {
			continue
		}
		rendered, err := renderAny(one.Name+"."+r.Type, own, functions, variables)
		if err != nil {
			return nil, err
		}
		section = merge(section, rendered.(map[string]any)) // a map renders to a map
	}
	if section != nil {
		encoded, err := json.Marshal(section)
		if err != nil {
			return nil, err
		}
		message.Section = encoded
	}
	return message, nil
}

// sectionOf returns what a template has for the service, with defaults; nil if nothing.
// Webhooks are by the name of the service, all others by the type.
func (r *Request) sectionOf(given map[string]any) map[string]any {
	own, _ := given[r.Type].(map[string]any)
	if r.Type == "webhook" {
		own, _ = own[r.Service].(map[string]any)
	}
	if own == nil {
		return nil
	}
	complete := sectionDefaults(r.Type)
	if complete == nil {
		return own
	}
	maps.Copy(complete, own)
	return complete
}

// renderAny renders every text of a value.
func renderAny(name string, value any, functions template.FuncMap, variables map[string]any) (any, error) {
	switch given := value.(type) {
	case string:
		return renderText(name, given, functions, variables)
	case map[string]any:
		rendered := map[string]any{}
		// In order, so that the first error is always the same one.
		for _, key := range slices.Sorted(maps.Keys(given)) {
			one, err := renderAny(name+"."+key, given[key], functions, variables)
			if err != nil {
				return nil, err
			}
			rendered[key] = one
		}
		return rendered, nil
	case []any:
		rendered := make([]any, len(given))
		for i, one := range given {
			var err error
			if rendered[i], err = renderAny(fmt.Sprintf("%s[%d]", name, i), one, functions, variables); err != nil {
				return nil, err
			}
		}
		return rendered, nil
	}
	return value, nil
}

// renderText renders one template.
func renderText(name, text string, functions template.FuncMap, variables map[string]any) (string, error) {
	parsed, err := template.New(name).Funcs(functions).Parse(text)
	if err != nil {
		return "", err
	}
	var rendered bytes.Buffer
	if err := parsed.Execute(&rendered, variables); err != nil {
		return "", err
	}
	if rendered.Len() > maxText {
		return "", fmt.Errorf("%s renders to more than %d KiB", name, maxText>>10)
	}
	return rendered.String(), nil
}

// merge puts one section over another. Empty texts do not replace others.
func merge(below, above map[string]any) map[string]any {
	if below == nil {
		return above
	}
	for key, value := range above {
		lower, isMap := below[key].(map[string]any)
		upper, areMaps := value.(map[string]any)
		switch {
		case isMap && areMaps:
			below[key] = merge(lower, upper)
		case value != "":
			below[key] = value
		}
	}
	return below
}
