package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// Problem is something that is wrong with options that are to become a file.
type Problem struct {
	// Option is its name with dots; empty for the text as a whole.
	Option string
	// Reason says what is wrong, and Fix what to do.
	Reason, Fix string
	// Secret says that nothing is wrong with the option but that it is a secret, and
	// others may read the file.
	Secret bool
}

// located is an error with the option that it is about. It reads like the error.
type located struct {
	option string
	error
}

// Unwrap is the error.
func (l located) Unwrap() error { return l.error }

// checkedFile is what the text is called while it is checked.
const checkedFile = "options.yaml"

var checkedPlace = regexp.MustCompile(` in options\.yaml(:[0-9]+)?`)

// CheckAgent says everything that is wrong with options of the agent as a YAML file
// has them, when other sources may add to them: what is missing is not told, nor
// what is wrong with options that the text does not name.
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

// check reads a text into options that have their defaults.
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
	for name, one := range given {
		if one.option.Type == TypeSecret {
			problems = append(problems, Problem{Option: name, Secret: true, Reason: "it is a secret, and the configuration is not one", Fix: "leave it out, and give it by the environment or a file that only the program reads"})
		}
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Option, b.Option) })
	return problems
}

// joined takes joined errors apart.
func joined(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return several.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// problemsOf are findings without the place, which nobody knows.
func problemsOf(findings []error) []Problem {
	var made []Problem
	for _, finding := range findings {
		text := checkedPlace.ReplaceAllString(finding.Error(), "")
		var at located
		errors.As(finding, &at)
		text = strings.TrimPrefix(text, "configuration file "+checkedFile+": ")
		text = strings.TrimPrefix(strings.TrimPrefix(text, at.option), ":")
		reason, fix, _ := strings.Cut(strings.TrimSpace(text), ": ")
		if fix == "" {
			fix = "see slipway agent --help and slipway edge --help for the options"
		}
		made = append(made, Problem{Option: at.option, Reason: "it " + strings.TrimPrefix(reason, "it "), Fix: fix})
	}
	return made
}
