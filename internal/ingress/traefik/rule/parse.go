package rule

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a rule. They are far above what people write, and bound the work for
// one that is hostile.
const (
	// MaxLength bounds the text of a rule, in bytes.
	MaxLength = 8192
	maxDepth  = 32
	// maxMatchers bounds the matchers of a rule.
	maxMatchers = 256
)

// operator joins the operands of an expression.
type operator uint8

const (
	// matches is that of a matcher, which has no operands.
	matches operator = iota
	and
	or
	not
)

// expression is a parsed rule: a matcher, or an operator with its operands.
type expression struct {
	operator operator
	operands []*expression
	matcher  matcher
}

// matcher is a call such as Host(`shop.example.com`).
type matcher struct {
	name   string
	values []string
	// at is the place in the rule, for messages.
	at int
}

// parser reads a rule from left to right.
type parser struct {
	text     string
	at       int
	depth    int
	matchers int
}

// parse returns the expression of a rule. && binds closer than ||, as in Go.
func parse(text string) (*expression, error) {
	switch {
	case len(text) > MaxLength:
		return nil, fmt.Errorf("the rule has %d bytes; at most %d are possible", len(text), MaxLength)
	case !utf8.ValidString(text):
		return nil, fmt.Errorf("the rule is not valid UTF-8")
	}
	p := &parser{text: text}
	parsed, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.skipSpace(); p.at < len(p.text) {
		return nil, p.unexpected("&&, || or the end of the rule")
	}
	return parsed, nil
}

// alternatives parses operands of ||.
func (p *parser) alternatives() (*expression, error) { return p.list("||", or, p.conjunction) }

// conjunction parses operands of &&.
func (p *parser) conjunction() (*expression, error) { return p.list("&&", and, p.operand) }

// list parses operands with an operator between them. A single one stays as it is.
func (p *parser) list(sign string, operator operator, next func() (*expression, error)) (*expression, error) {
	first, err := next()
	if err != nil {
		return nil, err
	}
	operands := []*expression{first}
	for p.take(sign) {
		operand, err := next()
		if err != nil {
			return nil, err
		}
		operands = append(operands, operand)
	}
	if len(operands) == 1 {
		return first, nil
	}
	return &expression{operator: operator, operands: operands}, nil
}

// operand parses a matcher, an expression in parentheses, or the opposite of one. Only
// here the parser recurses, so the bound on depth is here.
func (p *parser) operand() (*expression, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("at %d: the rule is nested more than %d deep", p.at+1, maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.take("!"):
		operand, err := p.operand()
		if err != nil {
			return nil, err
		}
		return &expression{operator: not, operands: []*expression{operand}}, nil
	case p.take("("):
		inner, err := p.alternatives()
		if err != nil {
			return nil, err
		}
		if !p.take(")") {
			return nil, p.unexpected(")")
		}
		return inner, nil
	default:
		return p.call()
	}
}

// call parses a matcher.
func (p *parser) call() (*expression, error) {
	p.skipSpace()
	start := p.at
	for p.at < len(p.text) && letter(p.text[p.at]) {
		p.at++
	}
	called := matcher{name: p.text[start:p.at], at: start}
	if called.name == "" {
		return nil, p.unexpected("a matcher such as Host(`shop.example.com`)")
	}
	if p.matchers++; p.matchers > maxMatchers {
		return nil, fmt.Errorf("the rule has more than %d matchers", maxMatchers)
	}
	if !p.take("(") {
		return nil, p.unexpected("( after " + called.name)
	}
	for !p.take(")") {
		if len(called.values) > 0 && !p.take(",") {
			return nil, p.unexpected(", or )")
		}
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		called.values = append(called.values, value)
	}
	return &expression{matcher: called}, nil
}

// value parses a text in backticks, or in double quotes with the escapes of Go.
func (p *parser) value() (string, error) {
	p.skipSpace()
	quoted, err := strconv.QuotedPrefix(p.text[p.at:])
	if err != nil || quoted[0] == '\'' {
		return "", p.unexpected("a value in backticks or double quotes")
	}
	value, err := strconv.Unquote(quoted)
	if err != nil || !utf8.ValidString(value) { // an escape can give bytes that are no text
		return "", p.unexpected("a value in backticks or double quotes")
	}
	p.at += len(quoted)
	return value, nil
}

// take skips space and a sign, and reports whether the sign is there.
func (p *parser) take(sign string) bool {
	p.skipSpace()
	if !strings.HasPrefix(p.text[p.at:], sign) {
		return false
	}
	p.at += len(sign)
	return true
}

func (p *parser) skipSpace() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// unexpected returns the error of a text that is not what has to be there.
func (p *parser) unexpected(wanted string) error {
	if p.at == len(p.text) {
		return fmt.Errorf("the rule ends, and %s is missing", wanted)
	}
	found, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return fmt.Errorf("at %d: %q, and not %s", p.at+1, found, wanted)
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' }
