package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/secret"
)

// Type is the kind of values that an option takes.
type Type string

// The types of options.
const (
	TypeString   Type = "string"
	TypeSecret   Type = "secret"
	TypeBool     Type = "bool"
	TypeDuration Type = "duration"
	TypeNumber   Type = "number"
	TypeList     Type = "list"
	// TypeSwitch is a group that can be turned on with its defaults, or off.
	TypeSwitch Type = "switch"
)

// nameElement represents the free name in the path of an option of a map, such
// as entryPoints.<name>.address.
const nameElement = "<name>"

// configFileName is the option that names the file. It is not in the structs: a
// file cannot name itself.
const configFileName = "configFile"

// environmentPrefix starts the name of each environment variable of the roles.
const environmentPrefix = "SLIPWAY_"

// Option describes one option, for help, reference and suggestions.
type Option struct {
	// Name is the path with dots, such as providers.kubernetesIngress.token.
	Name string
	// Type is the kind of values it takes.
	Type Type
	// Default is the value when nothing sets it, as text; often empty.
	Default string
	// Description explains it in whole sentences.
	Description string
	// Environment is the variable that sets it.
	Environment string

	path   []string // Name by its dots
	fields []string // the same path as Go field names
}

// Flag returns the flag that sets the option, with its dashes. Its case does
// not matter.
func (o Option) Flag() string { return "--" + o.Name }

// Group returns the heading of the option in help: its first two path elements
// if it has more, or the one before its own name.
func (o Option) Group() string {
	switch {
	case o.Type == TypeSwitch && len(o.path) <= 2:
		return o.Name
	case len(o.path) > 2:
		return strings.Join(o.path[:2], ".")
	case len(o.path) == 2:
		return o.path[0]
	}
	return ""
}

// role is a command with options of its own. Its text is the name of the
// command and of its configuration files.
type role string

const (
	edgeRole     role = "edge"
	agentRole    role = "agent"
	platformRole role = "platform"
)

// fileNames returns the file names that are searched in each directory.
func (r role) fileNames() [3]string {
	return [...]string{string(r) + ".yaml", string(r) + ".yml", string(r) + ".toml"}
}

// EdgeOptions lists every option of the edge in the order of its struct.
func EdgeOptions() []Option { return edgeRole.options(*defaultsOf[Edge]()) }

// AgentOptions lists every option of the agent in the order of its struct.
func AgentOptions() []Option { return agentRole.options(*defaultsOf[Agent]()) }

// PlatformOptions lists every option of the platform in the order of its struct.
func PlatformOptions() []Option { return platformRole.options(*defaultsOf[Platform]()) }

// defaultsOf returns the options of a role with their defaults.
func defaultsOf[T any, P interface {
	*T
	Defaults()
}]() *T {
	var options T
	P(&options).Defaults()
	return &options
}

// options lists the options of a struct that has its defaults, with configFile
// first.
func (r role) options(defaults any) []Option {
	names := r.fileNames()
	options := []Option{{
		Name: configFileName,
		Type: TypeString,
		Description: "File with options, YAML or TOML. When empty, it is " + names[0] + ", " + names[1] + " or " + names[2] +
			" in $XDG_CONFIG_HOME/slipway or else in /etc/slipway, if there is one.",
		Environment: environmentPrefix + strings.ToUpper(configFileName),
		path:        []string{configFileName},
		fields:      []string{""},
	}}
	walk := optionWalk{prototype: true, visit: func(o Option, value string) {
		o.Default = value
		options = append(options, o)
	}}
	walk.structure(reflect.ValueOf(defaults), Option{})
	return options
}

// optionWalk visits each option of a struct with its value as text. With
// prototype set it also visits nil groups with their defaults, and one
// nameElement of each map; without, it visits only what is set.
type optionWalk struct {
	prototype bool
	visit     func(o Option, value string)
}

// structure visits the fields of a struct in order. Every field needs a yaml
// tag.
func (w optionWalk) structure(v reflect.Value, parent Option) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		o := parent.child(name, field.Name)
		o.Description = field.Tag.Get("description")
		w.field(v.Field(i), o)
	}
}

// field visits one field by its type. Types with a text form of their own come
// before kinds.
func (w optionWalk) field(v reflect.Value, o Option) {
	switch value := v.Interface().(type) {
	case secret.Text:
		// String is the redacted form: no caller of the walk gets a secret.
		w.leaf(o, TypeSecret, value.String())
		return
	case Duration:
		w.leaf(o, TypeDuration, value.String())
		return
	case []string:
		w.leaf(o, TypeList, strings.Join(value, ","))
		return
	}
	switch v.Kind() {
	case reflect.String:
		w.leaf(o, TypeString, v.String())
	case reflect.Bool:
		w.leaf(o, TypeBool, strconv.FormatBool(v.Bool()))
	case reflect.Int:
		w.leaf(o, TypeNumber, strconv.FormatInt(v.Int(), 10))
	case reflect.Struct:
		w.structure(v, o)
	case reflect.Pointer:
		w.group(v, o)
	case reflect.Map:
		w.named(v, o)
	default:
		// Only a new field of an unsupported type reaches this, and it fails
		// every test of the package.
		panic(fmt.Sprintf("config: option %s has the unsupported type %s", o.Name, v.Type()))
	}
}

// leaf visits an option that has a value.
func (w optionWalk) leaf(o Option, t Type, value string) {
	o.Type = t
	w.visit(o, value)
}

// group visits an optional group, which is an option itself, and the options in
// it.
func (w optionWalk) group(v reflect.Value, o Option) {
	w.leaf(o, TypeSwitch, strconv.FormatBool(!v.IsNil()))
	if v.IsNil() && w.prototype {
		v = reflect.New(v.Type().Elem())
		if d, ok := v.Interface().(interface{ SetDefaults() }); ok {
			d.SetDefaults()
		}
	}
	if !v.IsNil() {
		w.structure(v.Elem(), o)
	}
}

// named visits the members of a map, sorted by name, or its prototype.
func (w optionWalk) named(v reflect.Value, o Option) {
	if w.prototype {
		member := reflect.New(v.Type().Elem())
		if d, ok := member.Interface().(interface{ SetDefaults() }); ok {
			d.SetDefaults()
		}
		w.field(member.Elem(), o.member(nameElement))
		return
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		w.field(v.MapIndex(key), o.member(key.String()))
	}
}

// member returns the option of one key of a map. If its values are scalars, the
// map's description describes it.
func (o Option) member(name string) Option {
	member := o.child(name, "")
	member.Description = o.Description
	return member
}

// child returns the option one path element further down. The slices are
// copied: siblings must not share a backing array.
func (o Option) child(name, field string) Option {
	path := append(append([]string(nil), o.path...), name)
	fields := append(append([]string(nil), o.fields...), field)
	return Option{
		Name:        strings.Join(path, "."),
		Environment: environmentPrefix + strings.ToUpper(strings.Join(path, "_")),
		path:        path,
		fields:      fields,
	}
}
