package snippet

import "strings"

// word reads the next word. Without one it stands at the mark that comes next, or at
// the end.
func (p *parser) word() (word string, found bool, err error) {
	p.space()
	if p.at == len(p.text) {
		return "", false, nil
	}
	switch c := p.text[p.at]; c {
	case ';', '{', '}':
		return "", false, nil
	case '"', '\'':
		word, err := p.quoted(c)
		return word, err == nil, err
	}
	return p.plain(), true, nil
}

// space skips white space and comments, and counts lines.
func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			for p.at+1 < len(p.text) && p.text[p.at+1] != '\n' {
				p.at++
			}
		default:
			return
		}
		p.at++
	}
}

// quoted reads a word in quotes. nginx wants white space or a mark behind it, or the
// parenthesis of a condition, which is a word of its own.
func (p *parser) quoted(quote byte) (string, error) {
	start := p.line
	var word strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == quote:
			p.at++
			return word.String(), p.behindQuote()
		case c == '\\' && p.at+1 < len(p.text):
			p.escape(&word)
		default:
			if c == '\n' {
				p.line++
			}
			word.WriteByte(c)
		}
	}
	return "", &Error{start, "a quote does not end: add the second one"}
}

func (p *parser) behindQuote() error {
	if p.at == len(p.text) || strings.IndexByte(" \t\r\n;{)", p.text[p.at]) >= 0 {
		return nil
	}
	return p.fail("unexpected %q behind a quote: put a space between them", p.text[p.at])
}

// plain reads a word without quotes. A brace behind a $ belongs to the name of a
// variable.
func (p *parser) plain() string {
	var word strings.Builder
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\' && p.at+1 < len(p.text):
			p.escape(&word)
			continue
		case c == '$' && p.at+1 < len(p.text) && p.text[p.at+1] == '{':
			word.WriteString("${")
			p.at++
			continue
		case strings.IndexByte(" \t\r\n;{", c) >= 0:
			return word.String()
		default:
			word.WriteByte(c)
		}
	}
	return word.String()
}

// escape reads a backslash with what follows it. nginx resolves escapes of quotes,
// backslashes and white space, and leaves all others, such as \. of an expression.
func (p *parser) escape(word *strings.Builder) {
	p.at++
	switch c := p.text[p.at]; c {
	case '"', '\'', '\\':
		word.WriteByte(c)
	case 't':
		word.WriteByte('\t')
	case 'r':
		word.WriteByte('\r')
	case 'n':
		word.WriteByte('\n')
	default:
		if c == '\n' {
			p.line++
		}
		word.WriteByte('\\')
		word.WriteByte(c)
	}
}
