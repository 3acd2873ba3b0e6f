package config

import (
	"bytes"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Change is an option that differs from its default.
type Change struct {
	// Option is its name.
	Option string
	// Value is its value as text; a secret is redacted.
	Value string
}

// Changes lists what differs from the defaults, in the order of the struct.
func (e *Edge) Changes() []Change {
	defaults := map[string]string{}
	known := schema(EdgeOptions())
	for _, o := range known {
		defaults[o.Name] = o.Default
	}
	var fresh Edge
	fresh.Defaults()
	optionWalk{visit: func(o Option, value string) {
		defaults[o.Name] = value
	}}.structure(reflect.ValueOf(fresh), Option{})

	var changes []Change
	optionWalk{visit: func(o Option, value string) {
		before, ok := defaults[o.Name]
		if !ok {
			// One of a map, with a name of its own.
			general, _ := known.find(o.path)
			before = general.Default
		}
		if value != before {
			changes = append(changes, Change{Option: o.Name, Value: value})
		}
	}}.structure(reflect.ValueOf(*e), Option{})
	return changes
}

// YAML gives all effective options as a configuration file, secrets redacted.
func (e *Edge) YAML() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(e); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
