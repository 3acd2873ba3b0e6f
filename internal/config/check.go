package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Problem is one finding about options that are to become a file, in the form
// of the chart's validation.
type Problem struct {
	// Option is its name with dots, empty for the text as a whole.
	Option string
	// Reason describes the problem, and Fix the remedy.
	Reason, Fix string
	// Secret is set if the option itself is valid, but is a secret in a file
	// that others may read.
	Secret bool
}

// located is an error with the option that it is about, so that callers need
// not parse the message.
type located struct {
	option string
	error
}

// Unwrap returns the error without the option.
func (l located) Unwrap() error { return l.error }

// checkedFile is the name of the text while it is checked. The extension
// selects the YAML parser.
const checkedFile = "options.yaml"

// checkedPlace matches the place in an error; problemsOf removes it.
var checkedPlace = regexp.MustCompile(` in options\.yaml(:[0-9]+)?`)

// CheckAgent returns all problems of agent options in YAML to which other
// sources may add. Validation problems of options that the text does not set
// are not reported: another source may set them. The chart's validation uses it
// for the options in its values.
func CheckAgent(text []byte) []Problem {
	known := schema{agentRole, AgentOptions()}
	agent := &Agent{}
	agent.Defaults()
	return known.check(text, agent, agent.Validate)
}

// CheckEdge is CheckAgent for the edge.
func CheckEdge(text []byte) []Problem {
	known := schema{edgeRole, EdgeOptions()}
	edge := &Edge{}
	edge.Defaults()
	return known.check(text, edge, edge.Validate)
}

// check decodes a text over the defaults and validates the result. Validation
// runs only if the text is well-formed, because it would report consequences
// otherwise.
func (s schema) check(text []byte, options any, validate func() error) []Problem {
	if len(text) > maxFileSize {
		return []Problem{{Reason: "they are larger than a configuration file may be", Fix: "leave out what is not needed"}}
	}
	settings, findings := parseFile(checkedFile, text)
	given, more := s.resolve(settings)
	problems := problemsOf(append(findings, more...))
	if len(problems) == 0 {
		if err := given.decode(s, options); err != nil {
			return problemsOf([]error{err})
		}
		for _, problem := range problemsOf(joined(validate())) {
			if _, named := given[problem.Option]; named {
				problems = append(problems, problem)
			}
		}
	}
	// Secrets are reported in addition: values files end up in ConfigMaps and
	// Git.
	for name, one := range given {
		if one.option.Type == TypeSecret {
			problems = append(problems, Problem{Option: name, Secret: true, Reason: "it is a secret, and the configuration is not one", Fix: "leave it out, and give it by the environment or a file that only the program reads"})
		}
	}
	// The map above has a random order.
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Option, b.Option) })
	return problems
}

// joined returns the errors that an error joins, or the error itself.
func joined(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return several.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// problemsOf converts findings. It removes their place in the file: the text is
// a part of another document, and its line numbers mean nothing to the user.
func problemsOf(findings []error) []Problem {
	var made []Problem
	for _, finding := range findings {
		text := checkedPlace.ReplaceAllString(finding.Error(), "")
		var at located
		errors.As(finding, &at)
		text = strings.TrimPrefix(text, "configuration file "+checkedFile+": ")
		text = strings.TrimPrefix(strings.TrimPrefix(text, at.option), ":")
		// Messages have the form "reason: fix" throughout this package.
		reason, fix, _ := strings.Cut(strings.TrimSpace(text), ": ")
		if fix == "" {
			fix = "see slipway agent --help and slipway edge --help for the options"
		}
		made = append(made, Problem{Option: at.option, Reason: "it " + strings.TrimPrefix(reason, "it "), Fix: fix})
	}
	return made
}
