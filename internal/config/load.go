package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/traefik/paerser/parser"

	"slipway.dev/slipway/internal/secret"
)

// labelRoot is the first element of each label for the decoder, which needs a
// common root.
const labelRoot = "slipway"

// Sources are the places that options come from.
type Sources struct {
	// Args are the words of the command line after the command's name.
	Args []string
	// Switches are flags of the command itself, in lower case and without
	// dashes, such as "help". They take no value; see [Loaded.Given].
	Switches []string
	// Environ are the environment variables, as os.Environ gives them.
	Environ []string
	// Dirs are searched for a file if no source names one; see [SearchDirs].
	Dirs []string
}

// Loaded is the result of reading all sources.
type Loaded struct {
	// Edge, Agent or Platform holds the effective options of the role that was
	// loaded. The other two are nil. The options are not validated yet, and
	// incomplete beside an error.
	Edge     *Edge
	Agent    *Agent
	Platform *Platform
	// File is the configuration file that was read, or "".
	File string
	// Given holds the switches that the command line has.
	Given map[string]bool
}

// LoadEdge loads the options of the edge from all sources. Its error joins one
// error per problem. Given is set even with an error, so that help can be
// shown. The result is not validated.
func LoadEdge(sources Sources) (*Loaded, error) {
	known := schema{edgeRole, EdgeOptions()}
	loaded, merged, err := known.load(sources)
	if err != nil {
		return loaded, err
	}
	edge := defaultsOf[Edge]()
	for name := range merged {
		if strings.HasPrefix(name, "entryPoints.") {
			edge.EntryPoints = nil // the default is for when there is none
		}
	}
	loaded.Edge = edge
	return loaded, merged.decode(known, edge)
}

// LoadAgent is LoadEdge for the agent.
func LoadAgent(sources Sources) (*Loaded, error) {
	known := schema{agentRole, AgentOptions()}
	loaded, merged, err := known.load(sources)
	if err != nil {
		return loaded, err
	}
	loaded.Agent = defaultsOf[Agent]()
	return loaded, merged.decode(known, loaded.Agent)
}

// LoadPlatform is LoadEdge for the platform.
func LoadPlatform(sources Sources) (*Loaded, error) {
	known := schema{platformRole, PlatformOptions()}
	loaded, merged, err := known.load(sources)
	if err != nil {
		return loaded, err
	}
	loaded.Platform = defaultsOf[Platform]()
	return loaded, merged.decode(known, loaded.Platform)
}

// load reads all sources into one layer: the file, then the environment over
// it, then the flags. It reads all of them even if one has errors, and reports
// the file first, as users read them.
func (s schema) load(sources Sources) (*Loaded, layer, error) {
	flags := readFlags(sources.Args, sources.Switches, s)
	loaded := &Loaded{Given: flags.given}

	// Flags and environment come first, because they may name the file.
	flagLayer, flagFindings := s.resolve(flags.settings)
	envLayer, envFindings := s.resolve(readEnvironment(sources.Environ, s))
	upper := layer{}
	maps.Copy(upper, envLayer)
	maps.Copy(upper, flagLayer)

	merged := layer{}
	var findings []error
	path, err := s.role.chooseFile(upper, sources.Dirs)
	if err != nil {
		findings = append(findings, err)
	}
	if path != "" {
		fileLayer, fileFindings := s.resolveFile(path)
		findings = append(findings, fileFindings...)
		maps.Copy(merged, fileLayer)
		loaded.File = path
	}
	findings = append(findings, envFindings...)
	findings = append(findings, flags.findings...)
	findings = append(findings, flagFindings...)
	if err := errors.Join(findings...); err != nil {
		return loaded, nil, err
	}
	maps.Copy(merged, upper)
	return loaded, merged, nil
}

// chooseFile returns the file that the flags or the environment name, or else
// the one found in dirs. A named file must exist; a found one may not.
func (r role) chooseFile(upper layer, dirs []string) (string, error) {
	chosen, ok := upper[configFileName]
	if ok && chosen.value != "" {
		return chosen.value, nil
	}
	return findFile(r, dirs)
}

// resolveFile reads a file into a layer. A file cannot name another one: chains
// would make the origin of an option unclear.
func (s schema) resolveFile(path string) (layer, []error) {
	settings, findings := readFile(path)
	fileLayer, more := s.resolve(settings)
	if named, ok := fileLayer[configFileName]; ok {
		more = append(more, fmt.Errorf("%s %s: a file cannot name another: use the flag or the environment", named.spelling, named.origin))
	}
	return fileLayer, append(findings, more...)
}

// decode applies the assignments to a struct with defaults. Secrets bypass the
// decoder, which sets only plain types.
func (l layer) decode(known schema, options any) error {
	labels := map[string]string{}
	for name, given := range l {
		if name == configFileName {
			continue
		}
		// An option of an optional group enables the group, unless the group is
		// set explicitly.
		for _, o := range known.switchesAbove(given.option) {
			if _, set := l[o.Name]; !set {
				labels[labelRoot+"."+o.Name] = "true"
			}
		}
		if given.option.Type != TypeSecret {
			labels[labelRoot+"."+name] = given.value
		} else if member, named := given.option.namedMember(); named {
			// A secret alone does not make the decoder make its member.
			if _, set := labels[labelRoot+"."+member]; !set {
				labels[labelRoot+"."+member] = ""
			}
		}
	}
	if err := parser.Decode(labels, options, labelRoot); err != nil {
		return fmt.Errorf("cannot decode the options: %w", err)
	}
	// The decoder has created the groups and members by now.
	for _, given := range l {
		if given.option.Type == TypeSecret {
			setSecret(reflect.ValueOf(options).Elem(), given.option, secret.New(given.value))
		}
	}
	return nil
}

// switchesAbove lists the optional groups that an option is in, which it
// enables by being set.
func (s schema) switchesAbove(option Option) []Option {
	var out []Option
	for _, o := range s.options {
		if o.Type == TypeSwitch && len(o.path) < len(option.path) && option.startsWith(o.path) {
			out = append(out, o)
		}
	}
	return out
}

// namedMember returns the path of the map member that an option is in, such as
// entryPoints.web.
func (o Option) namedMember() (string, bool) {
	at := slices.Index(o.fields, "")
	if at < 0 {
		return "", false
	}
	return strings.Join(o.path[:at+1], "."), true
}

// setSecret sets a secret field by its path. A disabled group has no field to
// set.
func setSecret(v reflect.Value, option Option, value secret.Text) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if len(option.fields) == 0 {
		v.Set(reflect.ValueOf(value))
		return
	}
	field, name := option.fields[0], option.path[0]
	rest := Option{fields: option.fields[1:], path: option.path[1:]}
	if v.Kind() != reflect.Map {
		setSecret(v.FieldByName(field), rest, value)
		return
	}
	// Map elements are not addressable: copy the member, change it, and store
	// it back.
	member := reflect.New(v.Type().Elem()).Elem()
	member.Set(v.MapIndex(reflect.ValueOf(name)))
	setSecret(member, rest, value)
	v.SetMapIndex(reflect.ValueOf(name), member)
}
