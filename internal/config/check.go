package config

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// The codes of findings. CodeSecret is a warning: the option itself is valid,
// but a secret in a file that others may read.
const (
	CodeInvalid = "OptionInvalid"
	CodeSecret  = "OptionSecret"
)

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
// sources may add; the subject is the option with dots. Validation problems of options that the text does not set
// are not reported: another source may set them. The chart's validation uses it
// for the options in its values.
func CheckAgent(text []byte) []finding.Finding {
	agent := defaultsOf[Agent]()
	return schema{agentRole, AgentOptions()}.check(text, agent, agent.Validate)
}

// CheckEdge is CheckAgent for the edge.
func CheckEdge(text []byte) []finding.Finding {
	edge := defaultsOf[Edge]()
	return schema{edgeRole, EdgeOptions()}.check(text, edge, edge.Validate)
}

// check decodes a text over the defaults and validates the result. Validation
// runs only if the text is well-formed, because it would report consequences
// otherwise.
func (s schema) check(text []byte, options any, validate func() error) []finding.Finding {
	if len(text) > maxFileSize {
		return []finding.Finding{{Code: CodeInvalid, Severity: finding.Error, Message: "they are larger than a configuration file may be", Fix: "remove options that are not needed"}}
	}
	settings, findings := parseFile(checkedFile, text)
	given, more := s.resolve(settings)
	problems := problemsOf(append(findings, more...))
	if len(problems) == 0 {
		if err := given.decode(s, options); err != nil {
			return problemsOf([]error{err})
		}
		for _, problem := range problemsOf(joined(validate())) {
			if _, named := given[problem.Subject]; named {
				problems = append(problems, problem)
			}
		}
	}
	// Secrets are reported in addition: values files end up in ConfigMaps and
	// Git.
	for name, one := range given {
		if one.option.Type == TypeSecret {
			problems = append(problems, finding.Finding{
				Code: CodeSecret, Severity: finding.Warning, Subject: name, Message: "it is a secret, and the configuration is not one",
				Fix: "leave it out, and give it by the environment or a file that only the program reads",
			})
		}
	}
	// The map above has a random order.
	slices.SortStableFunc(problems, func(a, b finding.Finding) int { return strings.Compare(a.Subject, b.Subject) })
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

// problemsOf makes findings of errors. It removes their place in the file: the text is
// a part of another document, and its line numbers mean nothing to the user.
func problemsOf(problems []error) []finding.Finding {
	var made []finding.Finding
	for _, problem := range problems {
		text := checkedPlace.ReplaceAllString(problem.Error(), "")
		at, _ := errors.AsType[located](problem)
		text = strings.TrimPrefix(text, "configuration file "+checkedFile+": ")
		text = strings.TrimPrefix(strings.TrimPrefix(text, at.option), ":")
		// Errors have the form "message: fix" throughout this package.
		message, fix, _ := strings.Cut(strings.TrimSpace(text), ": ")
		fix = cmp.Or(fix, "see slipway agent --help and slipway edge --help for the options")
		made = append(made, finding.Finding{Code: CodeInvalid, Severity: finding.Error, Subject: at.option, Message: "it " + strings.TrimPrefix(message, "it "), Fix: fix})
	}
	return made
}
