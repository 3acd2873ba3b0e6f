package config

import (
	"fmt"
	"strings"
)

// maxFindings bounds the errors of one source: a file of another program would
// otherwise fill the screen many times over.
const maxFindings = 50

// assignment is a value for one option, in the spelling of the decoder.
type assignment struct {
	option   Option
	value    string
	spelling string
	origin   origin
}

// layer has the assignments of one source by the name of the option. Merging
// layers copies the higher one over the lower one.
type layer map[string]assignment

// resolver turns the settings of one source into a layer. It is used once.
type resolver struct {
	schema schema
	layer  layer
}

// resolve checks the settings of one source against the schema and reports all
// problems, up to maxFindings. The layer has the valid settings.
func (s schema) resolve(settings []setting) (layer, []error) {
	r := resolver{schema: s, layer: layer{}}
	var findings []error
	for _, given := range settings {
		if err := r.take(given); err != nil {
			findings = append(findings, located{strings.Join(given.path, "."), err})
		}
		if len(findings) == maxFindings {
			findings = append(findings, fmt.Errorf("there may be more problems %s: the rest was not read", given.origin))
			break
		}
	}
	return r.layer, findings
}

// take checks one setting and records it. A setting whose error is reported
// elsewhere is dropped without one, so that each mistake causes one message.
func (r *resolver) take(given setting) error {
	if option, ok := r.schema.find(given.path); ok {
		if given.shape == group || given.shape == bare {
			return r.takeGroup(given, option)
		}
		return r.takeValue(given, option)
	}
	below := r.schema.below(given.path)
	switch {
	case len(below) == 0 && given.shape == group:
		return nil // each setting below it is reported
	case len(below) == 0 && given.origin.source == fromFile && r.schema.underLeaf(given.path):
		return nil // the mapping above it is reported
	case len(below) == 0:
		return r.unknown(given)
	case given.shape == group || given.shape == bare:
		return r.takeNamed(given, below[0])
	case given.shape == absent:
		return nil // a heading with nothing under it
	}
	return fmt.Errorf("%s %s is a group of options, not one: set %s", given.spelling, given.origin, spellAll(given.origin, below))
}

// takeGroup handles a mapping for an optional group: it enables the group, even
// if the mapping is empty.
func (r *resolver) takeGroup(given setting, option Option) error {
	if option.Type != TypeSwitch {
		return fmt.Errorf("%s %s takes a value, not a group of options", given.spelling, given.origin)
	}
	return r.assign(given, option, "true")
}

// takeNamed handles a mapping for a group that always exists, or for one member
// of a map. The member then exists, even with nothing set, so that Validate can
// report what it lacks.
func (r *resolver) takeNamed(given setting, member Option) error {
	last := len(given.path) - 1
	if err := checkNames(given, member); err != nil {
		return err
	}
	if r.schema.isName(given.path) {
		name := strings.Join(member.path[:last+1], ".")
		// An empty value makes the decoder create the member with its defaults.
		return r.assign(given, Option{Name: name, Type: TypeSwitch}, "")
	}
	return nil
}

// takeValue handles a scalar or a list. A key without a value is an error: it
// may be meant as empty or as unset.
func (r *resolver) takeValue(given setting, option Option) error {
	if err := checkNames(given, option); err != nil {
		return err
	}
	if given.shape == absent {
		fix := "give it one or remove it"
		if option.Type == TypeSwitch {
			fix = "write {} to turn it on with its defaults, or remove it"
		}
		return fmt.Errorf("%s %s has no value: %s", given.spelling, given.origin, fix)
	}
	value, err := option.parse(given)
	if err != nil {
		return fmt.Errorf("%s %s: %w", given.spelling, given.origin, err)
	}
	return r.assign(given, option, value)
}

// assign records a value. A repeated flag is allowed: lists grow, and of other
// values the last one wins, as usual on command lines. In other sources a
// repetition is an error.
func (r *resolver) assign(given setting, option Option, value string) error {
	earlier, twice := r.layer[option.Name]
	switch {
	case twice && earlier.spelling != given.spelling:
		return fmt.Errorf("%s and %s %s are the same option: keep one of them", earlier.spelling, given.spelling, given.origin)
	case twice && given.origin.source != fromFlags:
		return fmt.Errorf("%s %s is set twice: keep one of them", given.spelling, given.origin)
	case twice && option.Type == TypeList:
		value = strings.Trim(earlier.value+","+value, ",")
	}
	r.layer[option.Name] = assignment{option: option, value: value, spelling: given.spelling, origin: given.origin}
	return nil
}

// unknown is the error for an option that does not exist, with the nearest one.
// It does not quote the value, which may be a misplaced secret.
func (r *resolver) unknown(given setting) error {
	hint := "see slipway " + string(r.schema.role) + " --help for the options"
	if option, ok := r.schema.find(strings.Split(strings.Join(given.path, "."), ".")); ok {
		hint = "write " + option.Name + " as nested keys, without dots"
	} else if option, ok := r.schema.nearest(given.path); ok {
		hint = "did you mean " + given.origin.spell(option) + "?"
	}
	return fmt.Errorf("unknown option %s %s: %s", given.spelling, given.origin, hint)
}

// underLeaf reports whether a path continues below an option that has a value.
func (s schema) underLeaf(path []string) bool {
	for i := range path {
		if option, ok := s.find(path[:i]); ok && option.Type != TypeSwitch {
			return true
		}
	}
	return false
}

// isName reports whether the last element of a path is a free name.
func (s schema) isName(path []string) bool {
	for _, o := range s.options {
		if len(o.path) > len(path) && o.startsWith(path) {
			return o.path[len(path)-1] == nameElement
		}
	}
	return false
}

// checkNames refuses free names that not all sources can spell. find leaves
// nameElement in the path where the name is not valid.
func checkNames(given setting, option Option) error {
	for i, element := range option.path {
		if element == nameElement && i < len(given.path) {
			return fmt.Errorf("%s %s: the name %s is not valid: %s", given.spelling, given.origin, quoted(given.path[i]), nameRule)
		}
	}
	return nil
}

// spellAll lists up to three options as one source spells them.
func spellAll(o origin, options []Option) string {
	const most = 3
	var names []string
	for _, option := range options[:min(most, len(options))] {
		names = append(names, o.spell(option))
	}
	if len(options) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
