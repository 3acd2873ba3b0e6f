package cli_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/must"
)

// repository is the top of the repository.
const repository = "../.."

// printedCommands returns every command of the program that a text of the
// repository shows to a user: strings of Go code, the pages, the notes of the
// charts, and the console.
func printedCommands(t *testing.T) (all []printed) {
	t.Helper()
	root := cli.Tree()
	eachFile(t, func(name string, read func() string) {
		all = append(all, commandsInFile(root, name, read)...)
	})
	return all
}

// pages returns the text of every page by its name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	eachFile(t, func(name string, read func() string) {
		if path.Ext(name) == ".md" {
			found[name] = read()
		}
	})
	return found
}

// eachFile visits the files of the repository that may have text for users.
func eachFile(t *testing.T, visit func(name string, read func() string)) {
	t.Helper()
	files := os.DirFS(repository)
	skipped := []string{"testdata", "node_modules", "gen", "archtest"}
	for _, top := range []string{".", "api", "charts", "cmd", "deploy", "devcluster", "docs", "internal", "web/src"} {
		must.Do(t, fs.WalkDir(files, top, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (slices.Contains(skipped, entry.Name()) || top == "." && name != "."):
				return fs.SkipDir
			case !entry.IsDir() && !isTestFile(name):
				visit(name, func() string { return string(must.Get(fs.ReadFile(files, name))(t)) })
			}
			return nil
		}))
	}
}

func isTestFile(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.Contains(path.Base(name), ".test.")
}

// commandsInFile returns the commands that a file shows. Other files than those
// with text for users are not read.
func commandsInFile(root *cobra.Command, name string, read func() string) []printed {
	switch {
	case path.Ext(name) == ".go":
		return commandsInGo(root, name, read())
	case path.Ext(name) == ".md":
		return commandsInPage(root, name, read())
	case path.Base(name) == "NOTES.txt":
		return eachLine(name, read(), func(place, line string) []printed {
			return commandsInShell(root, place, line, false)
		})
	case strings.HasPrefix(name, "web/src/") && slices.Contains([]string{".ts", ".tsx", ".json"}, path.Ext(name)):
		return commandsInScript(root, name, read())
	}
	return nil
}

// eachLine calls read with every line of a text and the place of it.
func eachLine(name, text string, read func(place, line string) []printed) (found []printed) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		found = append(found, read(fmt.Sprintf("%s:%d", name, number), line)...)
	}
	return found
}

// goReader collects the commands in the strings of a Go file.
type goReader struct {
	root  *cobra.Command
	set   *token.FileSet
	found []printed
}

// manner is how a string of Go code is read.
type manner int

const (
	message   manner = iota // errors, hints and notes: commands are complete
	describes               // help and descriptions: they name commands
	example                 // lines for a shell
)

func commandsInGo(root *cobra.Command, name, text string) []printed {
	if !strings.Contains(text, "slipway ") {
		return nil
	}
	r := &goReader{root: root, set: token.NewFileSet()}
	tree, err := parser.ParseFile(r.set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return []printed{{place: name, words: []string{err.Error()}}}
	}
	r.read(tree, message)
	return r.found
}

// read visits the strings below a node. A sum of strings is one text, in which
// other operands are placeholders.
func (r *goReader) read(node ast.Node, how manner) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				r.text(n.Tag, describes)
			}
			return n.Tag == nil
		case *ast.KeyValueExpr:
			key, _ := n.Key.(*ast.Ident)
			if key != nil && how == message && mannerOf(key.Name) != message {
				r.read(n.Value, mannerOf(key.Name))
				return false
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && how == message && flagDefinition.MatchString(called.Sel.Name) {
				for _, argument := range n.Args {
					r.read(argument, describes)
				}
				return false
			}
		case *ast.BinaryExpr:
			if n.Op == token.ADD && r.text(n, how) {
				return false
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				r.text(n, how)
			}
		}
		return true
	})
}

// flagDefinition matches pflag's functions that define a flag.
var flagDefinition = regexp.MustCompile(`VarP?$`)

func mannerOf(key string) manner {
	switch strings.ToLower(key) {
	case "example":
		return example
	case "long", "short", "about":
		return describes
	}
	return message
}

// text reads one string, and reports whether the expression is one.
func (r *goReader) text(expr ast.Expr, how manner) bool {
	text, ok := r.sum(expr, how)
	if !ok {
		return false
	}
	if slices.ContainsFunc(notCommands(), func(other string) bool { return strings.HasPrefix(text, other) }) {
		return true
	}
	position := r.set.Position(expr.Pos())
	place := fmt.Sprintf("%s:%d", position.Filename, position.Line)
	if how == example {
		r.found = append(r.found, commandsInShell(r.root, place, text, false)...)
	} else {
		r.found = append(r.found, commandsInProse(r.root, place, text, how == describes)...)
	}
	return true
}

// sum adds up the literals of an expression. It reads other operands on their
// own, since they may have strings in them.
func (r *goReader) sum(expr ast.Expr, how manner) (text string, literal bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, leftOK := r.sum(e.X, how)
		right, rightOK := r.sum(e.Y, how)
		switch {
		case !leftOK && !rightOK:
			return "", false
		case !leftOK:
			r.read(e.X, how)
			left = "%v"
		case !rightOK:
			r.read(e.Y, how)
			right = "%v"
		}
		return left + right, true
	}
	return "", false
}

var (
	// inlineCode matches code in a paragraph of Markdown, also over a line break.
	inlineCode = regexp.MustCompile("`([^`]+)`")
	// indentedCode matches a line of a block without fences.
	indentedCode = regexp.MustCompile(`(?m)^ {4,}((?:bin/)?slipway .*)$`)
)

// commandsInPage returns the commands in the code of a page: blocks for a shell,
// other blocks, and code in sentences.
func commandsInPage(root *cobra.Command, name, text string) (found []printed) {
	for _, part := range pageParts(text) {
		place := fmt.Sprintf("%s:%d", name, part.line)
		switch {
		case part.language == "console":
			found = append(found, eachLine(name, part.text, func(_, line string) []printed {
				if shell, ok := strings.CutPrefix(line, "$ "); ok {
					return commandsInShell(root, place, shell, false)
				}
				return commandsInProse(root, place, line, true)
			})...)
		case part.language == "sh":
			found = append(found, commandsInShell(root, place, part.text, false)...)
		case part.fenced:
			found = append(found, eachLine(name, part.text, func(_, line string) []printed {
				return commandsInProse(root, place, line, true)
			})...)
		default:
			for _, code := range indentedCode.FindAllStringSubmatch(part.text, -1) {
				found = append(found, commandsInShell(root, place, code[1], false)...)
			}
			for _, code := range inlineCode.FindAllStringSubmatch(part.text, -1) {
				if words := strings.Fields(code[1]); len(words) > 1 {
					// Pages that are about one group leave out the name of the program.
					if group := findBelow(root, words[0]); group != nil && findBelow(group, words[1]) != nil {
						words = append([]string{"slipway"}, words...)
					}
					found = append(found, commandsInShell(root, place, strings.Join(words, " "), true)...)
				}
			}
		}
	}
	return found
}

// pagePart is a block or a paragraph of a page.
type pagePart struct {
	line     int
	fenced   bool
	language string
	text     string
}

func pageParts(text string) (parts []pagePart) {
	part, number := pagePart{line: 1}, 0
	next := func(after pagePart) {
		if part.text != "" {
			parts = append(parts, part)
		}
		part = after
	}
	for line := range strings.Lines(text) {
		number++
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && part.fenced:
			next(pagePart{line: number + 1})
		case fence:
			next(pagePart{line: number + 1, fenced: true, language: language})
		case !part.fenced && strings.TrimSpace(line) == "":
			next(pagePart{line: number + 1})
		default:
			part.text += line
		}
	}
	next(pagePart{})
	return parts
}

// commandsInScript returns the commands in the strings of TypeScript and JSON,
// in the text of elements, and in lists of words. Comments are left out.
func commandsInScript(root *cobra.Command, name, text string) (found []printed) {
	code := []byte(text) // with strings and comments blanked
	for i := 0; i < len(text); {
		length, isText := scriptToken(text[i:])
		place := fmt.Sprintf("%s:%d", name, 1+strings.Count(text[:i], "\n"))
		switch {
		case strings.HasPrefix(text[i:], `"slipway",`):
			if words := scriptWords(text[i:]); len(words) > 1 && findBelow(root, words[1]) != nil {
				found = append(found, printed{place, words[1:], false})
			}
		case isText:
			line := strings.NewReplacer(`\n`, "\n", `\\`, `\`, `\"`, `"`).Replace(text[i+1 : i+length-1])
			for one := range strings.Lines(line) {
				if strings.HasPrefix(one, "slipway ") {
					found = append(found, commandsInShell(root, place, one, false)...)
				} else {
					found = append(found, commandsInProse(root, place, one, false)...)
				}
			}
		}
		if length > 1 {
			copy(code[i:i+length], bytes.Repeat([]byte(" "), length))
		}
		i += length
	}
	return append(found, commandsInProse(root, name, string(code), false)...)
}

// scriptToken returns the length of the string or the comment at the beginning
// of a text, or 1.
func scriptToken(text string) (length int, isText bool) {
	switch {
	case strings.HasPrefix(text, "//"):
		return max(strings.IndexByte(text, '\n'), 2), false
	case strings.HasPrefix(text, "/*"):
		return max(strings.Index(text, "*/")+2, 2), false
	case text[0] == '"' || text[0] == '\'' || text[0] == '`':
		for i := 1; i < len(text) && (text[i] != '\n' || text[0] == '`'); i++ {
			switch text[i] {
			case '\\':
				i++
			case text[0]:
				return i + 1, true
			}
		}
	}
	return 1, false
}

// scriptWords reads a list of words. A name is a placeholder, and a spread may
// be anything.
func scriptWords(text string) (words []string) {
	inside, _, _ := strings.Cut(text, "]")
	for element := range strings.SplitSeq(inside, ",") {
		switch element = strings.TrimSpace(element); {
		case strings.HasPrefix(element, "..."):
			return append(words, "…")
		case strings.HasPrefix(element, `"`):
			words = append(words, strings.Trim(element, `"`))
		case element != "":
			words = append(words, "${"+element+"}")
		}
	}
	return words
}
