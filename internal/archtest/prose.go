package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"slipway.dev/slipway/api/finding"
)

// ProseRules are rules for the comments of Go code that is neither a test nor
// generated. They bound the frequency of words and do not forbid single uses,
// since most words have a correct one.
type ProseRules struct {
	// MinComments is the minimum of comment lines per line of code.
	MinComments float64
	Densities   []Density
}

// Density bounds how often a pattern occurs per 1,000 lines of comments.
type Density struct {
	Name    string
	Pattern *regexp.Regexp
	Below   float64 // the most; 0 means no bound
	Above   float64 // the least; 0 means no bound
	Reason  string
}

// Prose has the counts of CheckProse.
type Prose struct {
	Code     int // lines with code
	Comments int // lines with nothing but a comment
	// Every rule is counted, including those without a bound, so that a report
	// shows trends.
	Counts map[string]int // occurrences by the name of the Density
}

// Density returns the number of occurrences per 1,000 lines of comments.
func (p Prose) Density(name string) float64 {
	return 1000 * float64(p.Counts[name]) / float64(max(p.Comments, 1))
}

// CheckProse counts the words in all comments below dir and compares them with
// the rules. It also returns the counts, for a report.
func CheckProse(rules ProseRules, source SourceRules, dir string) (Prose, []finding.Finding, error) {
	prose := Prose{Counts: map[string]int{}}
	err := eachGoFile(source, dir, func(name string) error {
		if strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		return prose.add(rules, name, text)
	})
	if err != nil {
		return prose, nil, err
	}
	return prose, prose.judge(rules), nil
}

// add counts the lines and words of one file. A line with code and a trailing
// comment counts as code.
func (p *Prose) add(rules ProseRules, name string, text []byte) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	// Generators choose their own words.
	if ast.IsGenerated(tree) {
		return nil
	}
	// Positions come from the parser, so that "//" inside a string literal is
	// not taken for a comment.
	continued := map[int]bool{} // lines that a comment covers: whether it began on an earlier one
	for _, group := range tree.Comments {
		for _, one := range group.List {
			first := set.Position(one.Pos()).Line
			for line := first; line <= set.Position(one.End()-1).Line; line++ {
				continued[line] = continued[line] || line > first
			}
		}
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		inside, covered := continued[number]
		switch {
		case len(line) == 0:
		// A line inside a block comment need not start with a comment marker.
		case !covered || !startsComment(line) && !inside:
			p.Code++
		default:
			p.Comments++
			for _, density := range rules.Densities {
				p.Counts[density.Name] += len(density.Pattern.FindAll(line, -1))
			}
		}
	}
	return nil
}

// startsComment reports whether a trimmed line begins with a comment.
func startsComment(line []byte) bool {
	return bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("/*"))
}

// judge compares the counts with the rules.
func (p Prose) judge(rules ProseRules) []finding.Finding {
	var findings []finding.Finding
	// max avoids a division by zero in an empty folder.
	if ratio := float64(p.Comments) / float64(max(p.Code, 1)); ratio < rules.MinComments {
		findings = append(findings, violation("comments",
			"%.3f lines for each line of code, the least is %.2f; explain why, the order, and the ownership", ratio, rules.MinComments))
	}
	for _, density := range rules.Densities {
		seen := p.Density(density.Name)
		if density.Below > 0 && seen >= density.Below {
			findings = append(findings, violation("comments",
				"%s: %.1f in 1,000 lines, below %.0f is allowed; %s", density.Name, seen, density.Below, density.Reason))
		}
		// The lower bound is for the words of the field: their absence is the
		// finding.
		if density.Above > 0 && seen <= density.Above {
			findings = append(findings, violation("comments",
				"%s: %.1f in 1,000 lines, above %.0f is wanted; %s", density.Name, seen, density.Above, density.Reason))
		}
	}
	return findings
}
