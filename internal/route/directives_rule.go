package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// operators are those of the closed set. Others read files, resolve names or run
// programs.
var operators = []string{
	"beginsWith", "contains", "detectSQLi", "detectXSS", "endsWith", "eq", "ge", "gt", "ipMatch", "le", "lt", "noMatch", "pm", "restpath", "rx",
	"streq", "strmatch", "unconditionalMatch", "validateByteRange", "validateNid", "validateUrlEncoding", "validateUtf8Encoding", "within",
}

// ruleActions are those of the closed set. exec runs programs, setenv changes the
// environment of the edge, and collections that outlive a request are not kept.
var ruleActions = []string{
	"accuracy", "allow", "auditlog", "block", "capture", "chain", "ctl", "deny", "drop", "id", "log", "logdata", "maturity", "msg", "multimatch",
	"noauditlog", "nolog", "pass", "phase", "redirect", "rev", "setvar", "severity", "skip", "skipafter", "status", "t", "tag", "ver",
}

// controls are the settings that the action ctl may change for a request. Limits and
// logs are not among them.
var controls = []string{
	"ruleengine", "ruleremovebyid", "ruleremovebytag", "ruleremovebymsg", "ruleremovetargetbyid", "ruleremovetargetbytag", "ruleremovetargetbymsg",
	"requestbodyaccess", "requestbodyprocessor", "responsebodyaccess", "responsebodyprocessor", "forcerequestbodyvariable",
	"forceresponsebodyvariable", "auditlogparts",
}

// errRuleForm is why a rule is refused that is not written in the usual form.
var errRuleForm = errors.New(`write it as VARIABLES "OPERATOR" "ACTIONS"`)

// checkSecRule checks variables, operator and actions.
func checkSecRule(_ *Directive, value string) error {
	variables, rest, found := strings.Cut(value, " ")
	rest = strings.TrimLeft(rest, " ")
	if !found || rest == "" || rest[0] != '"' {
		return errRuleForm
	}
	if err := checkVariables(variables); err != nil {
		return err
	}
	end := closingQuote(rest)
	if end < 0 {
		return errRuleForm
	}
	if err := checkOperator(strings.ReplaceAll(rest[1:end], `\"`, `"`)); err != nil {
		return err
	}
	actions := strings.TrimLeft(rest[end+1:], " ")
	if actions == "" {
		return nil
	}
	if len(actions) < 2 || actions[0] != '"' || actions[len(actions)-1] != '"' {
		return errRuleForm
	}
	return checkActions(actions[1 : len(actions)-1])
}

// closingQuote returns where a quoted text ends that starts with its quotation mark.
func closingQuote(text string) int {
	escaped := false
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"' && !escaped:
			return i
		case text[i] == '\\':
			escaped = !escaped
		default:
			escaped = false
		}
	}
	return -1
}

// checkVariables refuses the environment of the process.
func checkVariables(variables string) error {
	for variable := range strings.FieldsFuncSeq(strings.ToUpper(variables), func(c rune) bool { return c == '|' || c == ',' }) {
		name, _, _ := strings.Cut(strings.TrimLeft(variable, `!&" `), ":")
		if name == "ENV" {
			return errors.New("the variable ENV is not supported: rules see the request and the response")
		}
	}
	return nil
}

// checkOperator refuses an operator that is not in the closed set. A text without one is
// an expression.
func checkOperator(text string) error {
	text = strings.TrimPrefix(text, "!")
	name, isOperator := strings.CutPrefix(text, "@")
	if !isOperator {
		return nil
	}
	name, _, _ = strings.Cut(name, " ")
	if name = strings.TrimSpace(name); !slices.Contains(operators, name) {
		return fmt.Errorf("the operator @%.64s is not supported", name)
	}
	return nil
}

// checkSecAction checks a list of actions in quotation marks.
func checkSecAction(_ *Directive, value string) error {
	return checkActions(strings.Trim(value, `"`))
}

// checkTarget checks the variables that are added to a rule or taken from it.
func checkTarget(_ *Directive, value string) error {
	_, targets, _ := strings.Cut(value, " ")
	return checkVariables(strings.Trim(strings.TrimSpace(targets), `"`))
}

// checkUpdatedActions checks the actions that a rule gets. They are the last word.
func checkUpdatedActions(_ *Directive, value string) error {
	at := strings.LastIndexAny(value, " \t")
	return checkActions(strings.Trim(value[at+1:], `"`))
}

// checkActions refuses actions that are not in the closed set. The list is cut as the
// parser of the rules cuts it: at commas outside of quotation marks.
func checkActions(list string) error {
	if strings.Contains(strings.ToLower(list), "%{env") {
		return errors.New("the variable ENV is not supported: rules see the request and the response")
	}
	quoted, start := false, 0
	for i := 1; i <= len(list); i++ {
		switch {
		case i == len(list):
		case list[i-1] == '\\':
			continue
		case list[i] == '\'':
			quoted = !quoted
			continue
		case quoted || list[i] != ',':
			continue
		}
		if err := checkAction(list[start:i]); err != nil {
			return err
		}
		start = i + 1
	}
	if quoted {
		return errors.New("a quotation mark in its actions is not closed")
	}
	return nil
}

func checkAction(text string) error {
	name, value, _ := strings.Cut(text, ":")
	name = strings.ToLower(strings.TrimSpace(name))
	if !slices.Contains(ruleActions, name) {
		return fmt.Errorf("the action %.64q is not supported", name)
	}
	if name != "ctl" {
		return nil
	}
	control, _, _ := strings.Cut(strings.Trim(strings.TrimSpace(value), "'\""), "=")
	if control = strings.ToLower(strings.TrimSpace(control)); !slices.Contains(controls, control) {
		return fmt.Errorf("the action ctl cannot change %.64q", control)
	}
	return nil
}
