package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"slipway.dev/slipway/api/declare"
)

// shape is the form in which a source has a setting. Flags and variables are
// always single.
type shape int

const (
	single shape = iota // one value
	list                // several values
	group               // a mapping with settings below it
	bare                // a mapping with nothing below it
	absent              // a key without a value
)

// setting is the value of one source for one path, before the path is looked up
// in the schema.
type setting struct {
	spelling string   // as the user wrote it: a.b, --a.b or SLIPWAY_A_B
	path     []string // its elements, as the user wrote them
	shape    shape
	values   []string
	origin   origin
}

// source is a kind of place that settings come from. A later one overrides an
// earlier one.
type source int

const (
	fromFile source = iota
	fromEnvironment
	fromFlags
)

// origin is the place of a setting, for messages.
type origin struct {
	source source
	file   string // its path, for fromFile
	line   int    // in the file; 0 when unknown
}

// String formats the place for an error, such as "in edge.yaml:7".
func (o origin) String() string {
	switch {
	case o.source == fromEnvironment:
		return "in the environment"
	case o.source == fromFlags:
		return "on the command line"
	case o.line > 0:
		return "in " + o.file + ":" + strconv.Itoa(o.line)
	}
	return "in " + o.file
}

// spell formats an option's name as the user would write it in this source.
func (o origin) spell(option Option) string {
	switch o.source {
	case fromFlags:
		return option.Flag()
	case fromEnvironment:
		return option.Environment
	}
	return option.Name
}

// schema has the known options of one role. It is read-only and safe for
// concurrent use.
type schema struct {
	role    role
	options []Option
}

// find returns the option at a path, ignoring case, with the path's elements in
// place of free names. A linear search is enough: it runs at start only.
func (s schema) find(path []string) (Option, bool) {
	for _, o := range s.options {
		if len(o.path) == len(path) && o.startsWith(path) {
			return o.named(path), true
		}
	}
	return Option{}, false
}

// nearest returns the option that an unknown path most likely means. It reports
// false rather than suggest an unrelated option.
func (s schema) nearest(path []string) (Option, bool) {
	named := map[string]Option{}
	names := make([]string, 0, len(s.options))
	for _, o := range s.options {
		o = o.named(path)
		named[o.Name] = o
		names = append(names, o.Name)
	}
	option, ok := named[declare.Nearest(strings.Join(path, "."), names)]
	return option, ok
}

// named puts the elements of a path in place of the free names of an option, in
// lower case. Invalid names stay nameElement, which checkNames reports.
func (o Option) named(path []string) Option {
	out := Option{}
	for i, element := range o.path {
		if element == nameElement && i < len(path) && validLabel(strings.ToLower(path[i])) {
			element = strings.ToLower(path[i])
		}
		out = out.child(element, o.fields[i])
	}
	out.Type, out.Default = o.Type, o.Default
	return out
}

// below lists the options strictly under a path.
func (s schema) below(path []string) []Option {
	var out []Option
	for _, o := range s.options {
		if len(o.path) > len(path) && o.startsWith(path) {
			out = append(out, o.named(path))
		}
	}
	return out
}

// startsWith reports whether the option is at or under a path. A free name
// matches every element.
func (o Option) startsWith(path []string) bool {
	for i, element := range path {
		if i >= len(o.path) || (o.path[i] != nameElement && !strings.EqualFold(o.path[i], element)) {
			return false
		}
	}
	return true
}

// parse checks a setting against the type of the option, and returns the
// normalized spelling that the decoder accepts.
func (o Option) parse(given setting) (string, error) {
	// Secrets read from files by a shell often end in a line break, which would
	// be part of the value.
	for _, value := range given.values {
		if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
			return "", errors.New("the value has a control character or is not UTF-8; look for a line break at its end")
		}
	}
	if o.Type == TypeList {
		return parseList(given)
	}
	if given.shape != single {
		return "", errors.New("it takes one value, not a list")
	}
	value := given.values[0]
	switch o.Type {
	case TypeBool, TypeSwitch:
		on, err := strconv.ParseBool(value)
		if err != nil {
			return "", fmt.Errorf("the value %s is neither true nor false", quoted(value))
		}
		return strconv.FormatBool(on), nil
	case TypeNumber:
		n, err := strconv.Atoi(value)
		if err != nil {
			return "", fmt.Errorf("the value %s is not a whole number", quoted(value))
		}
		return strconv.Itoa(n), nil
	case TypeDuration:
		d, err := parseDuration(value)
		if err != nil {
			return "", fmt.Errorf("the value %s is not a duration such as 500ms, 2s or 1m30s", quoted(value))
		}
		return d.String(), nil
	}
	return value, nil
}

// parseList joins items with commas, the form in which flags and variables have
// lists. An empty item is refused, because an empty list often means "all".
func parseList(given setting) (string, error) {
	values := given.values
	if given.shape == single {
		if values[0] == "" {
			return "", nil
		}
		values = strings.Split(values[0], ",")
	}
	items := make([]string, len(values))
	for i, item := range values {
		items[i] = strings.TrimSpace(item)
		if items[i] == "" {
			return "", errors.New("the list has an empty item; remove it")
		}
		if strings.Contains(item, ",") {
			return "", fmt.Errorf("the item %s has a comma; make it two items", quoted(item))
		}
	}
	return strings.Join(items, ","), nil
}

// parseDuration parses a duration; a number without a unit is in seconds. It
// refuses overflows.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		d := time.Duration(seconds) * time.Second
		if d/time.Second != time.Duration(seconds) {
			return 0, errors.New("out of range")
		}
		return d, nil
	}
	return time.ParseDuration(text)
}

// quoted formats a value for an error, cut to 60 bytes. Secrets must not be
// passed to it.
func quoted(value string) string {
	const most = 60
	if len(value) > most {
		value = strings.ToValidUTF8(value[:most], "") + "…"
	}
	return strconv.Quote(value)
}
