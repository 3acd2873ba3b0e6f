package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// flagReader parses a command line into settings. Flags are --name=value or
// --name value; a boolean option needs no value, and then takes none from the
// next word, as in package flag.
type flagReader struct {
	schema   schema
	switches []string // flags of the command itself, which take no value
	args     []string
	given    map[string]bool // the switches that were given
	settings []setting
	findings []error
}

// readFlags parses all arguments and collects errors, so that one run reports
// all of them.
func readFlags(args, switches []string, known schema) *flagReader {
	r := &flagReader{schema: known, switches: switches, args: args, given: map[string]bool{}}
	previous := ""
	for len(r.args) > 0 {
		word := r.args[0]
		r.args = r.args[1:]
		switch {
		case word == "-h" && slices.Contains(switches, "help"):
			r.given["help"] = true
		case strings.HasPrefix(word, "--") && len(word) > 2:
			r.flag(word)
		case strings.HasPrefix(word, "-") && word != "-" && word != "--":
			r.report("%s starts with one dash: options start with two", quoted(word))
		// A -- at the end is harmless; arguments after it are not, because no
		// role takes any.
		case word == "--" && len(r.args) == 0:
		default:
			r.report("unexpected word %s on the command line%s", quoted(word), r.wordHint(previous, word))
		}
		previous = word
	}
	return r
}

// report adds an error, up to maxFindings.
func (r *flagReader) report(format string, args ...any) {
	if len(r.findings) < maxFindings {
		r.findings = append(r.findings, fmt.Errorf(format, args...))
	}
}

// wordHint explains a word after an option that takes none: the user probably
// meant to set the option to it.
func (r *flagReader) wordHint(previous, word string) string {
	option, ok := r.schema.find(flagPath(previous))
	if ok && option.takesNoWord() && !strings.Contains(previous, "=") {
		on, err := strconv.ParseBool(word)
		return ": join the value to its option, as in " + previous + "=" + strconv.FormatBool(on || err != nil)
	}
	return ": slipway " + string(r.schema.role) + " takes only options"
}

// flag parses one flag, and takes its value from the next word if it needs one.
// An unknown flag becomes a setting too; resolve reports it with a suggestion.
func (r *flagReader) flag(word string) {
	spelling, value, joined := strings.Cut(word, "=")
	if name := strings.ToLower(spelling[2:]); slices.Contains(r.switches, name) {
		on, err := strconv.ParseBool(value)
		if joined && err != nil {
			r.report("%s on the command line: the value %s is neither true nor false", spelling, quoted(value))
		}
		r.given[name] = on || !joined
		return
	}
	path := flagPath(spelling)
	option, known := r.schema.find(path)
	switch {
	case joined:
	case known && option.takesNoWord():
		value = "true"
	// A next word that starts with a dash is a flag and not a value. Negative
	// values need the form with =.
	case len(r.args) > 0 && !strings.HasPrefix(r.args[0], "-"):
		value, r.args = r.args[0], r.args[1:]
	case known:
		r.report("%s on the command line has no value: write %s=…", spelling, spelling)
		return
	}
	r.settings = append(r.settings, setting{
		spelling: spelling,
		path:     path,
		values:   []string{value},
		origin:   origin{source: fromFlags},
	})
}

// takesNoWord reports whether an option may be given without a value, which
// means true.
func (o Option) takesNoWord() bool { return o.Type == TypeBool || o.Type == TypeSwitch }

// flagPath returns the path elements of a flag, without its dashes.
func flagPath(spelling string) []string {
	return strings.Split(strings.TrimPrefix(spelling, "--"), ".")
}
