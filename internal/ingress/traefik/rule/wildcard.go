package rule

import (
	"regexp/syntax"
	"strings"
)

// wildcardOf returns the wildcard that includes every host which an expression matches,
// such as *.example.com for ^[a-z]+\.example\.com$; empty if there is none. A rule with a
// host is found by index and belongs to a namespace, and one without is for all hosts.
func wildcardOf(expression string) string {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	parsed = parsed.Simplify()
	if parsed.Op != syntax.OpConcat {
		return ""
	}
	parts := flatten(parsed.Sub)
	last := len(parts) - 1
	if last < 2 || parts[0].Op != syntax.OpBeginText || parts[last].Op != syntax.OpEndText || parts[last-1].Op != syntax.OpLiteral {
		return ""
	}
	// The text before the first dot is a part of the label.
	end, parent, dot := strings.Cut(strings.ToLower(string(parts[last-1].Rune)), ".")
	if !dot || parent == "" || strings.ContainsFunc(parent, func(c rune) bool { return c > 0x7f || !letter(byte(c)) && c != '-' && c != '.' }) ||
		strings.HasPrefix(parent, ".") || strings.HasSuffix(parent, ".") || strings.Contains(parent, "..") {
		return ""
	}
	least := len(end)
	for _, part := range parts[1 : last-1] {
		length, label := labelLength(part)
		if !label {
			return ""
		}
		least += length
	}
	if least == 0 {
		return ""
	}
	return "*." + parent
}

// flatten returns the parts of an expression, without groups around several of them.
func flatten(parts []*syntax.Regexp) []*syntax.Regexp {
	var flat []*syntax.Regexp
	for _, part := range parts {
		switch part.Op {
		case syntax.OpConcat:
			flat = append(flat, flatten(part.Sub)...)
		case syntax.OpCapture:
			flat = append(flat, flatten(part.Sub)...)
		default:
			flat = append(flat, part)
		}
	}
	return flat
}

// labelLength returns the least length of what a part matches, and whether that is always
// within one label: it has no dot.
func labelLength(part *syntax.Regexp) (least int, label bool) {
	switch part.Op {
	case syntax.OpLiteral:
		return len(part.Rune), !strings.ContainsRune(string(part.Rune), '.')
	case syntax.OpCharClass:
		for i := 0; i+1 < len(part.Rune); i += 2 {
			if part.Rune[i] <= '.' && '.' <= part.Rune[i+1] {
				return 0, false
			}
		}
		return 1, true
	case syntax.OpEmptyMatch:
		return 0, true
	case syntax.OpStar, syntax.OpQuest:
		_, label = labelLength(part.Sub[0])
		return 0, label
	case syntax.OpPlus, syntax.OpCapture:
		return labelLength(part.Sub[0])
	case syntax.OpConcat:
		for _, sub := range part.Sub {
			length, within := labelLength(sub)
			if !within {
				return 0, false
			}
			least += length
		}
		return least, true
	case syntax.OpAlternate:
		for i, sub := range part.Sub {
			length, within := labelLength(sub)
			if !within {
				return 0, false
			}
			if i == 0 || length < least {
				least = length
			}
		}
		return least, true
	default:
		return 0, false
	}
}
