package config

import (
	"bytes"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Change is an option that differs from its default, for the log at start.
type Change struct {
	// Option is its name.
	Option string
	// Value is its value as text; a secret is redacted.
	Value string
}

// Changes lists the options that differ from their defaults, in the order of
// the struct, secrets redacted.
func (e *Edge) Changes() []Change {
	return changes(schema{edgeRole, EdgeOptions()}, *defaultsOf[Edge](), *e)
}

// Changes lists the options that differ from their defaults, in the order of
// the struct, secrets redacted.
func (a *Agent) Changes() []Change {
	return changes(schema{agentRole, AgentOptions()}, *defaultsOf[Agent](), *a)
}

// Changes lists the options that differ from their defaults, in the order of
// the struct, secrets redacted.
func (p *Platform) Changes() []Change {
	return changes(schema{platformRole, PlatformOptions()}, *defaultsOf[Platform](), *p)
}

// changes lists the options of given that differ from fresh, which has the
// defaults. Options of disabled groups are not visited.
func changes(known schema, fresh, given any) []Change {
	defaults := map[string]string{}
	for _, o := range known.options {
		defaults[o.Name] = o.Default
	}
	// Members of maps that exist by default, such as the entry point web,
	// override the defaults of the prototype.
	optionWalk{visit: func(o Option, value string) {
		defaults[o.Name] = value
	}}.structure(reflect.ValueOf(fresh), Option{})

	var out []Change
	optionWalk{visit: func(o Option, value string) {
		before, ok := defaults[o.Name]
		if !ok {
			// A member with a name of its own has the defaults of the
			// prototype.
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

// YAML returns all effective options as a configuration file, secrets redacted.
func (p *Platform) YAML() ([]byte, error) { return asFile(p) }

// asFile encodes options as YAML in the order of the struct. The result loads
// again, except for redacted secrets, which Validate refuses.
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
