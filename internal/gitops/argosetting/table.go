package argosetting

import (
	"slices"
	"strings"
)

// Effect is what becomes of a setting.
type Effect string

// The effects, the best first.
const (
	// Same: it is used as it is written.
	Same Effect = "same"
	// NoEffect: it is not used, and what is delivered does not depend on it.
	NoEffect Effect = "no effect"
	// Differs: without it the runtime does something else than Argo CD.
	Differs Effect = "differs"
	// Refused: the object that has it is not used.
	Refused Effect = "refused"
)

// Setting is what becomes of one key or field.
type Setting struct {
	Effect Effect
	// Text is the reason, or what to do; empty for settings that are used.
	Text string
}

// row is the setting of keys that have the same one.
type row struct {
	keys []string // one that ends in * is a prefix
	Setting
	// defaults are values with which Argo CD does what the runtime does anyway.
	defaults []string
	// read decides by the value; nil for settings whose value does not matter.
	read func(value string) Setting
}

// fits reports whether the row is for a key.
func (r *row) fits(key string) bool {
	return slices.ContainsFunc(r.keys, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")
		return key == pattern || isPrefix && strings.HasPrefix(key, prefix)
	})
}

// Table has the settings of one object. The first row that fits counts, so that
// more specific prefixes come first.
type Table []row

// Of returns what becomes of a key with a value. A setting without a value, or
// with a value that changes nothing, is the Same. It is false for a key that
// Argo CD does not have.
func (t Table) Of(key, value string) (Setting, bool) {
	at := slices.IndexFunc(t, func(r row) bool { return r.fits(key) })
	if at < 0 {
		return Setting{NoEffect, "Argo CD " + upstreamVersion + " has no such setting: look for a misspelling, or remove it"}, false
	}
	value = strings.TrimSpace(value)
	if value == "" || slices.Contains(t[at].defaults, value) {
		return Setting{Effect: Same}, true
	}
	if t[at].read != nil {
		return t[at].read(value), true
	}
	return t[at].Setting, true
}

// Rank orders the settings without an effect as the table has them: those that
// concern delivery come first.
func (t Table) Rank(key string) int {
	return slices.IndexFunc(t, func(r row) bool { return r.fits(key) })
}

// upstreamVersion is that of Argo CD whose settings the tables have.
const upstreamVersion = "3.5.6"

// used returns a row of settings that are used as they are written.
func used(keys ...string) row { return row{keys: keys, Setting: Setting{Effect: Same}} }

// unused returns a row of settings on which nothing depends.
func unused(text string, keys ...string) row {
	return row{keys: keys, Setting: Setting{NoEffect, text}}
}

// differing returns a row of settings without which the runtime does something
// else.
func differing(text string, keys ...string) row {
	return row{keys: keys, Setting: Setting{Differs, text}}
}

// refused returns a row of settings that refuse the object.
func refused(text string, keys ...string) row {
	return row{keys: keys, Setting: Setting{Refused, text}}
}

// decided returns a row of settings whose values decide.
func decided(read func(value string) Setting, keys ...string) row { return row{keys: keys, read: read} }

// unless sets the values with which a row changes nothing.
func (r row) unless(values ...string) row {
	r.defaults = values
	return r
}
