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
	var fresh Edge
	fresh.Defaults()
	return changes(schema{edgeRole, EdgeOptions()}, fresh, *e)
}

// Changes lists what differs from the defaults, in the order of the struct.
func (a *Agent) Changes() []Change {
	var fresh Agent
	fresh.Defaults()
	return changes(schema{agentRole, AgentOptions()}, fresh, *a)
}

// changes lists the options of a struct that differ from another with the
// defaults.
func changes(known schema, fresh, given any) []Change {
	defaults := map[string]string{}
	for _, o := range known.options {
		defaults[o.Name] = o.Default
	}
	optionWalk{visit: func(o Option, value string) {
		defaults[o.Name] = value
	}}.structure(reflect.ValueOf(fresh), Option{})

	var out []Change
	optionWalk{visit: func(o Option, value string) {
		before, ok := defaults[o.Name]
		if !ok {
			// One of a map, with a name of its own.
			general, _ := known.find(o.path)
			before = general.Default
		}
		if value != before {
			out = append(out, Change{Option: o.Name, Value: value})
		}
	}}.structure(reflect.ValueOf(given), Option{})
	return out
}

// YAML returns all effective options as a configuration file, secrets redacted.
func (e *Edge) YAML() ([]byte, error) { return asFile(e) }

// YAML returns all effective options as a configuration file, secrets redacted.
func (a *Agent) YAML() ([]byte, error) { return asFile(a) }

// asFile encodes options as YAML in the order of the struct.
func asFile(options any) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(options); err != nil {
		return nil, err
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
