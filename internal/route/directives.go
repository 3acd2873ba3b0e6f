package route

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The limits of directives. A rule is evaluated for every request, so their number
// bounds the time that a request takes.
const (
	// MaxDirectiveBytes bounds the text of directives.
	MaxDirectiveBytes = 64 << 10
	// MaxDirectiveLine bounds one directive, with its continued lines. The parser of
	// the rules stops at a line of 64 KiB without an error, and must never see one.
	MaxDirectiveLine = 16 << 10
	// MaxDirectiveRules bounds the rules and actions of the text, those of the sets
	// that it includes not counted.
	MaxDirectiveRules = 200
	// MaxInspectedRequest and MaxInspectedResponse bound the bytes of a body that are
	// inspected, and MaxInspectedFields those of a request that are not of files, which
	// take the time. The first and the last are the defaults of ModSecurity's recommended
	// settings.
	MaxInspectedRequest  = 13107200
	MaxInspectedResponse = 1 << 20
	MaxInspectedFields   = 128 << 10
)

// Included is a set of directives that the edge has in its program.
type Included uint8

// The sets.
const (
	// NotIncluded marks a directive that is none.
	NotIncluded Included = iota
	// IncludedRecommended has the recommended settings.
	IncludedRecommended
	// IncludedCoreRules has the OWASP Core Rule Set.
	IncludedCoreRules
)

// includes are the names of the sets. Those of ingress-nginx are files of its image.
var includes = map[string]Included{
	"@recommended": IncludedRecommended, "/etc/nginx/modsecurity/modsecurity.conf": IncludedRecommended,
	"@owasp_crs": IncludedCoreRules, "/etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf": IncludedCoreRules,
}

// Directive is one directive, checked.
type Directive struct {
	// Name is in lower case.
	Name string
	// Text is the directive in one line; empty for a set.
	Text string
	// Set is the set that it includes.
	Set Included
	// Number is the value of a limit.
	Number int64
}

// ParseDirectives reads directives into the order in which they take effect: those that
// remove or change rules come last, because a rule that they name may follow them, and a
// set counts once. Directives about logs and files of ModSecurity that change nothing
// here are left out. The error names the directive and its line.
func ParseDirectives(text string) ([]Directive, error) {
	if len(text) > MaxDirectiveBytes {
		return nil, fmt.Errorf("there are more than %d bytes of directives", MaxDirectiveBytes)
	}
	var list, last []Directive
	included := map[Included]bool{}
	rules := 0
	err := eachDirective(text, func(name, value string) error {
		declared, known := directives[strings.ToLower(name)]
		if !known {
			return errors.New("it is not supported: remove it")
		}
		made := Directive{Name: strings.ToLower(name), Text: name + " " + value}
		if declared.check != nil {
			if err := declared.check(&made, value); err != nil {
				return err
			}
		}
		if declared.rule {
			if rules++; rules > MaxDirectiveRules {
				return fmt.Errorf("there are more than %d rules", MaxDirectiveRules)
			}
		}
		switch {
		case declared.quiet || included[made.Set]:
		case declared.last:
			last = append(last, made)
		default:
			list = append(list, made)
		}
		if made.Set != NotIncluded {
			included[made.Set] = true
		}
		return nil
	})
	return append(list, last...), err
}

// eachDirective calls yield for each directive, in the lines that ModSecurity joins. An
// error gets the name and the line.
func eachDirective(text string, yield func(name, value string) error) error {
	var joined strings.Builder
	number, began := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if joined.Len() == 0 {
			began = number
		}
		if joined.Len()+len(line) > MaxDirectiveLine {
			return fmt.Errorf("line %d: the directive has more than %d bytes", began, MaxDirectiveLine)
		}
		if start, more := strings.CutSuffix(line, `\`); more {
			joined.WriteString(start)
			continue
		}
		joined.WriteString(line)
		name, value := joined.String(), ""
		if at := strings.IndexAny(name, " \t"); at >= 0 {
			name, value = name[:at], strings.TrimSpace(name[at:])
		}
		joined.Reset()
		if err := checkLine(name, value); err != nil {
			return fmt.Errorf("line %d: %.64q: %w", began, name, err)
		}
		if err := yield(name, value); err != nil {
			return fmt.Errorf("line %d: %.64q: %w", began, name, err)
		}
	}
	if joined.Len() > 0 {
		return fmt.Errorf("line %d: the directive ends with a backslash, and no line follows", began)
	}
	return nil
}

// checkLine refuses text that the parser of the rules reads in another way: it joins and
// cuts lines itself.
func checkLine(name, value string) error {
	switch {
	case value == "" && !strings.EqualFold(name, "SecResponseBodyMimeTypesClear"):
		return errors.New("it has no value")
	case strings.HasSuffix(value, "`"), strings.HasSuffix(value, `\`):
		return errors.New("it ends with a backquote or a backslash")
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return errors.New("it has a control character")
	}
	return nil
}

// directive declares a directive of the closed set.
type directive struct {
	// check validates the value and fills in the Directive.
	check func(*Directive, string) error
	// quiet directives have no effect here.
	quiet bool
	// rule is set if it is evaluated for requests, last if it changes rules.
	rule, last bool
}

// directives is the closed set, by name in lower case. All others are refused.
var directives = map[string]directive{
	"secrule":                 {check: checkSecRule, rule: true},
	"secaction":               {check: checkSecAction, rule: true},
	"secdefaultaction":        {check: checkSecAction},
	"secmarker":               {},
	"seccomponentsignature":   {},
	"secruleremovebyid":       {last: true},
	"secruleremovebytag":      {last: true},
	"secruleremovebymsg":      {last: true},
	"secruleupdatetargetbyid": {check: checkTarget, last: true}, "secruleupdatetargetbytag": {check: checkTarget, last: true},
	"secruleupdateactionbyid": {check: checkUpdatedActions, last: true},
	"include":                 {check: checkInclude},

	"secruleengine":        {check: oneOf("On", "Off", "DetectionOnly")},
	"secrequestbodyaccess": {check: oneOf("On", "Off")}, "secresponsebodyaccess": {check: oneOf("On", "Off")},
	"secrequestbodylimit": {check: atMost(MaxInspectedRequest)}, "secrequestbodynofileslimit": {check: atMost(MaxInspectedFields)}, "secresponsebodylimit": {check: atMost(MaxInspectedResponse)},
	"secrequestbodylimitaction": {check: oneOf("Reject", "ProcessPartial")}, "secresponsebodylimitaction": {check: oneOf("Reject", "ProcessPartial")},
	"secrequestbodyjsondepthlimit": {check: atMost(1024)}, "secresponsebodyjsondepthlimit": {check: atMost(1024)},
	"secargumentslimit":       {check: atMost(1000)},
	"secresponsebodymimetype": {}, "secresponsebodymimetypesclear": {},

	// The edge logs matches itself, keeps bodies in memory, and has no expressions
	// that need a limit of steps.
	"secauditlog": {check: checkLogFile, quiet: true}, "secdebuglog": {check: checkLogFile, quiet: true},
	"secauditengine": {quiet: true}, "secauditlogparts": {quiet: true}, "secauditlogformat": {quiet: true}, "secauditlogtype": {quiet: true},
	"secauditlogrelevantstatus": {quiet: true}, "secdebugloglevel": {quiet: true},
	"secrequestbodyinmemorylimit": {quiet: true},
	"secpcrematchlimit":           {quiet: true}, "secpcrematchlimitrecursion": {quiet: true},
	"sectmpdir": {quiet: true}, "secdatadir": {quiet: true}, "secunicodemapfile": {quiet: true}, "secuploadkeepfiles": {check: oneOf("Off"), quiet: true},
	"seccookieformat": {quiet: true}, "secargumentseparator": {quiet: true}, "secstatusengine": {quiet: true},
	"secserversignature": {quiet: true}, "secwebappid": {quiet: true}, "secsensorid": {quiet: true}, "seccollectiontimeout": {quiet: true},
}

// oneOf checks a value of a switch, in any case.
func oneOf(words ...string) func(*Directive, string) error {
	return func(_ *Directive, value string) error {
		for _, word := range words {
			if strings.EqualFold(unquoted(value), word) {
				return nil
			}
		}
		return fmt.Errorf("%.64q is not possible: use %s", value, strings.Join(words, ", "))
	}
}

// atMost checks a limit.
func atMost(most int64) func(*Directive, string) error {
	return func(made *Directive, value string) error {
		number, err := strconv.ParseInt(unquoted(value), 10, 64)
		if err != nil || number < 1 || number > most {
			return fmt.Errorf("%.64q is not a number from 1 to %d", value, most)
		}
		made.Number = number
		return nil
	}
}

// unquoted removes quotation marks around a value.
func unquoted(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}

// checkInclude admits the sets of the program, under their names. No file is read.
func checkInclude(made *Directive, value string) error {
	set, known := includes[unquoted(value)]
	if !known {
		return fmt.Errorf("%.80q is not included: the edge reads no files; use @recommended or @owasp_crs", value)
	}
	made.Set, made.Text = set, ""
	return nil
}

// checkLogFile admits the outputs that are those of the edge itself.
func checkLogFile(_ *Directive, value string) error {
	switch unquoted(value) {
	case "/dev/stdout", "/dev/stderr", "/dev/null":
		return nil
	}
	return errors.New("the edge writes no files: its own log has the matches, so remove it")
}
