// Package glob matches names against the patterns that Application and
// AppProject resources use:
//
//   - any text, also an empty one (** is the same)
//     ?        one character
//     [abc]    one of these, [a-z] one of a range, [!abc] none of these
//     {ab,cd}  one of these texts, which may be patterns
//     \x       the character x itself
//
// There is no separator: * takes dots and slashes too, as in Argo CD. Patterns of
// addresses ([CompileAddress]) are different: there *, ? and [!abc] take no
// slash, and ** does.
//
// It promises that matching takes time in proportion to the text for every
// pattern. It refuses patterns that are malformed or long.
package glob

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern bounds what one pattern costs to compile and to keep.
const maxPattern = 512

// Pattern is a compiled pattern. The zero value matches nothing.
type Pattern struct {
	// literal is what a pattern without special characters matches.
	literal    string
	plain      bool
	everything bool
	expression *regexp.Regexp
}

// Compile reads a pattern.
func Compile(text string) (Pattern, error) { return compile(text, false) }

// CompileAddress reads a pattern of addresses of repositories: * and ? take no
// slash, and ** takes everything. A * alone is everything nevertheless.
func CompileAddress(text string) (Pattern, error) { return compile(text, true) }

// compile translates a pattern into a regular expression. Go's engine runs in
// linear time (RE2), so that no pattern is expensive.
func compile(text string, separated bool) (Pattern, error) {
	if len(text) > maxPattern {
		return Pattern{}, fmt.Errorf("a pattern has %d characters, the most is %d", len(text), maxPattern)
	}
	if text == "*" {
		return Pattern{everything: true}, nil
	}
	if !strings.ContainsAny(text, `*?[]{}\`) {
		return Pattern{literal: text, plain: true}, nil
	}
	reader := patternReader{rest: []rune(text), separated: separated}
	if err := reader.sequence(); err != nil {
		return Pattern{}, fmt.Errorf("pattern %q: %w", text, err)
	}
	expression, err := regexp.Compile(`(?s)^(?:` + reader.out.String() + `)$`)
	if err != nil {
		return Pattern{}, fmt.Errorf("pattern %q cannot be used", text)
	}
	return Pattern{expression: expression}, nil
}

// Match reports whether the pattern takes all of a text.
func (p Pattern) Match(text string) bool {
	switch {
	case p.everything:
		return true
	case p.plain:
		return p.literal == text
	case p.expression != nil:
		return p.expression.MatchString(text)
	}
	return false
}

// patternReader turns a pattern into a regular expression, which Go matches
// without backtracking.
type patternReader struct {
	rest  []rune
	out   strings.Builder
	depth int // of braces
	// separated: a slash ends what * and ? take.
	separated bool
}

// The errors of malformed patterns.
var (
	errBrace  = errors.New("a { has no }, or a } no {")
	errClass  = errors.New("a [ has no ], or nothing between them")
	errEscape = errors.New(`nothing follows the \ at the end`)
)

// sequence reads to the end, or to the brace that closes the group it is in.
func (r *patternReader) sequence() error {
	for len(r.rest) > 0 {
		char := r.rest[0]
		r.rest = r.rest[1:]
		switch char {
		case '*':
			r.star()
		case '?':
			r.out.WriteString(r.any())
		case '[':
			if err := r.class(); err != nil {
				return err
			}
		case ']':
			return errClass
		case '{':
			r.depth++
			r.out.WriteString(`(?:`)
		case '}':
			if r.depth == 0 {
				return errBrace
			}
			r.depth--
			r.out.WriteString(`)`)
		case ',':
			if r.depth > 0 {
				r.out.WriteString(`|`)
			} else {
				r.out.WriteString(`,`)
			}
		case '\\':
			if len(r.rest) == 0 {
				return errEscape
			}
			r.literal(r.rest[0])
			r.rest = r.rest[1:]
		default:
			r.literal(char)
		}
	}
	if r.depth > 0 {
		return errBrace
	}
	return nil
}

// any is one character.
func (r *patternReader) any() string {
	if r.separated {
		return `[^/]`
	}
	return `.`
}

// star reads what follows the first *.
func (r *patternReader) star() {
	one := r.any()
	for len(r.rest) > 0 && r.rest[0] == '*' {
		r.rest = r.rest[1:]
		one = `.`
	}
	r.out.WriteString(one + `*`)
}

// class reads what is between brackets.
func (r *patternReader) class() error {
	r.out.WriteString(`[`)
	if len(r.rest) > 0 && r.rest[0] == '!' {
		r.out.WriteString(`^`)
		if r.separated {
			r.out.WriteString(`/`)
		}
		r.rest = r.rest[1:]
	}
	for read := 0; len(r.rest) > 0; read++ {
		char := r.rest[0]
		r.rest = r.rest[1:]
		switch {
		case char == ']' && read > 0:
			r.out.WriteString(`]`)
			return nil
		case char == ']':
			return errClass
		case char == '-' && read > 0:
			r.out.WriteString(`-`)
		case char == '\\':
			if len(r.rest) == 0 {
				return errEscape
			}
			r.literal(r.rest[0])
			r.rest = r.rest[1:]
		default:
			r.literal(char)
		}
	}
	return errClass
}

// literal adds a character that stands for itself.
func (r *patternReader) literal(char rune) {
	if char == '-' || char == '^' {
		r.out.WriteByte('\\')
		r.out.WriteRune(char)
		return
	}
	r.out.WriteString(regexp.QuoteMeta(string(char)))
}
