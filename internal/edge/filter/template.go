package filter

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/h1"
)

// maxPlaces bounds how many matches in one text are replaced, and so the work that
// one request can cause.
const maxPlaces = 64

// errPlaces is the error of a text with more matches than that.
var errPlaces = errors.New("the expression matches in too many places")

// rewriter replaces the matches of an expression, everywhere in a text. The
// replacement is parsed once, so a group that the expression does not have is an
// error of the policy and not an empty text later.
type rewriter struct {
	expression *regexp.Regexp
	parts      []templatePart
}

// templatePart is a text, or the number of a group when the text is empty.
type templatePart struct {
	literal string
	group   int
}

// newRewriter compiles an expression and its replacement.
func newRewriter(expression, replacement string) (*rewriter, error) {
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, invalid("regexp", "not a regular expression in RE2 syntax: %v", err)
	}
	parts, err := parseTemplate(replacement, compiled)
	if err != nil {
		return nil, invalid("replacement", "%v", err)
	}
	return &rewriter{expression: compiled, parts: parts}, nil
}

// parseTemplate reads $1, ${1}, $name, ${name} and $$, as regexp.Expand does.
func parseTemplate(text string, expression *regexp.Regexp) ([]templatePart, error) {
	var parts []templatePart
	literal := func(s string) {
		if n := len(parts); n > 0 && parts[n-1].literal != "" {
			parts[n-1].literal += s
		} else if s != "" {
			parts = append(parts, templatePart{literal: s})
		}
	}
	for {
		before, rest, found := strings.Cut(text, "$")
		literal(before)
		if !found {
			return parts, nil
		}
		if after, dollar := strings.CutPrefix(rest, "$"); dollar {
			literal("$")
			text = after
			continue
		}
		name, after := groupName(rest)
		if name == "" {
			return nil, errors.New("a $ is not followed by a group; write ${1} for the first group, $$ for a dollar sign")
		}
		group, err := groupNumber(name, expression)
		if err != nil {
			return nil, err
		}
		parts = append(parts, templatePart{group: group})
		text = after
	}
}

// groupName cuts the name off a text that follows a $.
func groupName(text string) (name, rest string) {
	if inner, braced := strings.CutPrefix(text, "{"); braced {
		name, rest, found := strings.Cut(inner, "}")
		if !found || wordEnd(name) != len(name) {
			return "", ""
		}
		return name, rest
	}
	end := wordEnd(text)
	return text[:end], text[end:]
}

// wordEnd returns the length of the word that text starts with.
func wordEnd(text string) int {
	for i := range len(text) {
		if c := text[i]; c != '_' && c-'0' > 9 && c|0x20-'a' > 25 {
			return i
		}
	}
	return len(text)
}

// groupNumber resolves a group by number or by name.
func groupNumber(name string, expression *regexp.Regexp) (int, error) {
	if number, err := strconv.ParseUint(name, 10, 16); err == nil {
		if int(number) > expression.NumSubexp() {
			return 0, fmt.Errorf("the replacement names group %d, but the expression has %d", number, expression.NumSubexp())
		}
		return int(number), nil
	}
	if number := expression.SubexpIndex(name); number >= 0 {
		return number, nil
	}
	return 0, fmt.Errorf("the replacement names a group %q that the expression does not have; put braces around the name where letters follow: ${1}x", name)
}

// replace appends src to dst, with the replacement in place of each match. Without
// a match it appends nothing. It fails when there are too many matches, or more
// than most bytes come out.
func (r *rewriter) replace(dst, src []byte, most int) (out []byte, fits bool, err error) {
	places := r.expression.FindAllSubmatchIndex(src, maxPlaces+1)
	if len(places) == 0 {
		return dst, false, nil
	}
	if len(places) > maxPlaces {
		return dst, true, errPlaces
	}
	start, done := len(dst), 0
	for _, place := range places {
		dst = append(dst, src[done:place[0]]...)
		done = place[1]
		for _, part := range r.parts {
			if part.literal != "" {
				dst = append(dst, part.literal...)
			} else if from := place[2*part.group]; from >= 0 {
				dst = append(dst, src[from:place[2*part.group+1]]...)
			}
			if len(dst)-start > most {
				return dst, true, h1.ErrTargetTooLong
			}
		}
	}
	return append(dst, src[done:]...), true, nil
}

// literals calls check with each text of the replacement.
func (r *rewriter) literals(check func(string) error) error {
	for _, part := range r.parts {
		if part.literal == "" {
			continue
		}
		if err := check(part.literal); err != nil {
			return invalid("replacement", "%v", err)
		}
	}
	return nil
}
