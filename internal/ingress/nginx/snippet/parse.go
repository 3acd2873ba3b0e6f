package snippet

import (
	"fmt"
	"unicode/utf8"
)

// The bounds of a text. They are far above what people write.
const (
	// MaxBytes bounds a text.
	MaxBytes = 64 << 10
	// MaxDirectives bounds its directives, those in blocks included.
	MaxDirectives = 512
	// MaxWords bounds the words of one directive.
	MaxWords = 64
	// MaxDepth bounds blocks in blocks.
	MaxDepth = 4
)

// Directive is a directive with its arguments, and the directives of its block.
type Directive struct {
	Name string
	// Words are the arguments, without quotes and escapes.
	Words []string
	// Line is the line of the name, from 1.
	Line int
	// Block is set if braces follow, also around nothing.
	Block bool
	// Inner are the directives of the block.
	Inner []Directive
}

// Error is why a text is not a list of directives.
type Error struct {
	Line    int
	Message string
}

// Error returns the line and the message.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Parse reads a text. The error is an *[Error].
func Parse(text string) ([]Directive, error) {
	p := parser{text: text, line: 1}
	if len(text) > MaxBytes {
		return nil, &Error{1, fmt.Sprintf("it has %d bytes: write at most %d", len(text), MaxBytes)}
	}
	if !utf8.ValidString(text) {
		return nil, &Error{1, "it is not UTF-8"}
	}
	return p.block(0)
}

// parser is the state of one text.
type parser struct {
	text  string
	at    int
	line  int
	count int
}

// fail returns an error of the current line.
func (p *parser) fail(format string, args ...any) error {
	return &Error{p.line, fmt.Sprintf(format, args...)}
}

// block reads directives until the end of the text, or of the block that they are in.
func (p *parser) block(depth int) ([]Directive, error) {
	var list []Directive
	for {
		read, end, err := p.directive(depth)
		switch {
		case err != nil:
			return nil, err
		case read != nil:
			list = append(list, *read)
		case end == '}' && depth == 0:
			return nil, p.fail("a } closes no block: remove it")
		case end == 0 && depth > 0:
			return nil, p.fail("the text ends within a block: add a }")
		default:
			return list, nil
		}
	}
}

// directive reads a directive with its block, or the mark that ends the list: a brace,
// or 0 at the end of the text.
func (p *parser) directive(depth int) (*Directive, byte, error) {
	var made Directive
	for words := 0; ; words++ {
		word, found, err := p.word()
		if err != nil {
			return nil, 0, err
		}
		switch {
		case found && words == 0:
			made.Name, made.Line = word, p.line
			if p.count++; p.count > MaxDirectives {
				return nil, 0, p.fail("there are more than %d directives: use fewer", MaxDirectives)
			}
			continue
		case found:
			if made.Words = append(made.Words, word); words > MaxWords {
				return nil, 0, p.fail("a directive has more than %d words: use fewer", MaxWords)
			}
			continue
		}
		mark := p.mark()
		switch {
		case words == 0 && (mark == '}' || mark == 0):
			return nil, mark, nil
		case words == 0:
			return nil, 0, p.fail("unexpected %q: a directive starts with its name", mark)
		case mark == ';':
			return &made, 0, nil
		case mark == '{' && depth == MaxDepth:
			return nil, 0, p.fail("blocks are nested more than %d deep", MaxDepth)
		case mark == '{':
			made.Block = true
			made.Inner, err = p.block(depth + 1)
			return &made, 0, err
		default:
			return nil, 0, p.fail("the directive %.64q does not end: add a ;", made.Name)
		}
	}
}

// mark reads the mark that word stopped at; 0 at the end.
func (p *parser) mark() byte {
	if p.at == len(p.text) {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}
