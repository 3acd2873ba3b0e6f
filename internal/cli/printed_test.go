package cli_test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// printed is a command of the program that a text shows to its reader.
type printed struct {
	place string   // file:line
	words []string // without the name of the program; placeholders as they stand
	// partial is set where a text may name a command without its arguments:
	// descriptions and prose. A message, an example and a block are complete,
	// because readers copy from them.
	partial bool
}

func (p printed) line() string { return strings.Join(append([]string{"slipway"}, p.words...), " ") }

// placeholder is the one rule for parts of a word that a reader or the program
// fills in: NAME, <name>, %s, ${name}, $NAME, {{ .name }} and an ellipsis.
var placeholder = regexp.MustCompile(`^[A-Z][-A-Z_/.\[\]]*$|<[^>]*>|%[-+#0-9.\[\]]*[a-zA-Z]|\$\{[^}]*\}|\$\w+|\{\{.*\}\}|…`)

// shellWords splits a text for a shell into commands, and those into words.
// Redirections and comments are left out; comments come back as text. A bar
// without blanks is not a pipe: prose writes alternatives that way.
func shellWords(text string) (commands [][]string, comments []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	var command []string
	end := func() {
		if len(command) > 0 {
			commands, command = append(commands, command), nil
		}
	}
	for text != "" {
		switch rest := strings.TrimLeft(text, " \t"); {
		case rest == "" || rest[0] == '\n' || rest[0] == ';':
			end()
			text = strings.TrimPrefix(strings.TrimPrefix(rest, "\n"), ";")
			continue
		case rest[0] == '#':
			comment, after, _ := strings.Cut(rest, "\n")
			comments, text = append(comments, comment), after
			end()
			continue
		default:
			text = rest
		}
		word, after := shellWord(text)
		text = after
		switch {
		case slices.Contains([]string{"|", "||", "&&", "&"}, word):
			end()
		case redirection.MatchString(word) && !tag.MatchString(word):
			if strings.HasSuffix(word, ">") || strings.HasSuffix(word, "<") {
				_, text = shellWord(strings.TrimLeft(text, " \t")) // the file
			}
		default:
			command = append(command, word)
		}
	}
	end()
	return commands, comments
}

var redirection = regexp.MustCompile(`^[0-9]?[<>]`)

// shellWord returns the first word of a text without its quotes, and the rest.
// What is in braces of a template or a variable belongs to the word.
func shellWord(text string) (word, rest string) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'' || c == '"':
			closing := strings.IndexByte(text[i+1:], c)
			if closing < 0 {
				closing = len(text) - i - 1
			}
			out.WriteString(text[i+1 : i+1+closing])
			i += closing + 1
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "${"), strings.HasPrefix(text[i:], "<") && tag.MatchString(text[i:]):
			length := strings.IndexAny(text[i:], "}>\n")
			if length < 0 {
				length = len(text) - i - 1
			}
			for i+length+1 < len(text) && text[i+length+1] == '}' {
				length++
			}
			out.WriteString(text[i : i+length+1])
			i += length
		case strings.IndexByte(" \t\n;", c) >= 0:
			return out.String(), text[i:]
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), ""
}

// tag is a placeholder in angle brackets, which is no redirection.
var tag = regexp.MustCompile(`^<[a-z][\w -]*>`)

// commandsInShell returns the commands of the program in a text for a shell:
// complete ones in command position, and those that comments mention.
func commandsInShell(root *cobra.Command, place, text string, partial bool) (found []printed) {
	commands, comments := shellWords(text)
	for _, words := range commands {
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "$" || assignment.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) < 2 || words[0] != "slipway" && words[0] != "bin/slipway" {
			continue
		}
		for _, each := range alternatives(words[1:]) {
			found = append(found, printed{place, each, partial})
		}
	}
	for _, comment := range comments {
		found = append(found, commandsInProse(root, place, comment, true)...)
	}
	return found
}

var (
	// brackets matches a word in brackets, or with the half of a pair.
	brackets   = regexp.MustCompile(`^\[?([^\[\]]*)\]?$`)
	assignment = regexp.MustCompile(`^[A-Z_]+=`)
)

// alternatives writes out the first word with bars: list|get is two commands.
// Brackets are around what may be left out.
func alternatives(words []string) (all [][]string) {
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "[flags]" || word == "[options]" })
	for i, word := range words {
		words[i] = brackets.ReplaceAllString(word, "$1")
	}
	for i, word := range words {
		if before, after, found := strings.Cut(word, "|"); found && before != "" && after != "" {
			for each := range strings.SplitSeq(word, "|") {
				variant := slices.Clone(words)
				variant[i] = each
				all = append(all, alternatives(variant)...)
			}
			return all
		}
	}
	return [][]string{words}
}

// commandsInProse returns the commands that sentences name. A sentence goes on
// after a command, so the command tree decides where the command ends: it has
// the words of a path in the tree, flags with their values, and arguments that
// look like some: a placeholder, a name with punctuation in it, or a word with
// a flag after it. Punctuation at the end of a word ends it.
func commandsInProse(root *cobra.Command, place, text string, partial bool) (found []printed) {
	for _, at := range mention.FindAllStringSubmatchIndex(text, -1) {
		if quotedName.MatchString(text[:at[2]]) {
			continue
		}
		words := proseWords(root, strings.Fields(text[at[2]:]))
		if len(words) > 0 {
			found = append(found, printed{place, words, partial})
		}
	}
	return found
}

var (
	mention = regexp.MustCompile("(?:^|[\\s(\"'`]|bin/)slipway ([a-z-])")
	// quotedName ends a text in which the next word is the name of a namespace
	// or of an object and not the program.
	quotedName = regexp.MustCompile(`(?:-n|--namespace|namespace|--release|ingressClassName:|secret|part-of|Slipway|kind:) slipway $`)
)

// proseWords returns the words of the command at the beginning of a sentence.
// A first word that is no command is returned as well, to be reported.
func proseWords(root *cobra.Command, fields []string) (words []string) {
	command := root
	for i := 0; i < len(fields); i++ {
		word := strings.TrimRight(fields[i], "`'\",.;:)?!")
		ends := word != fields[i]
		below := findBelow(command, word)
		switch {
		case below != nil && len(words) == depth(command):
			command = below
		case i == 0 && slices.Contains([]string{"and", "is", "there"}, word):
			return nil // the sentence is about the program
		case i == 0:
			return []string{word}
		case strings.HasPrefix(word, "("):
			return words
		case strings.HasPrefix(word, "-"):
			if i+1 < len(fields) && !ends && takesValue(command, word) {
				words = append(words, word)
				i++
				word = strings.TrimRight(fields[i], "`'\",.;:)?!")
				ends = word != fields[i]
			}
		case placeholder.MatchString(word) || strings.ContainsAny(word, "/.:@="):
		case !ends && i+1 < len(fields) && strings.HasPrefix(fields[i+1], "--"):
		default:
			return words
		}
		words = append(words, word)
		if ends {
			break
		}
	}
	return words
}

func depth(command *cobra.Command) (count int) {
	for ; command.HasParent(); command = command.Parent() {
		count++
	}
	return count
}

func findBelow(command *cobra.Command, name string) *cobra.Command {
	for _, below := range command.Commands() {
		if below.Name() == name || below.HasAlias(name) {
			return below
		}
	}
	return nil
}

// takesValue reports whether the next word is the value of a flag.
func takesValue(command *cobra.Command, word string) bool {
	name := strings.TrimLeft(word, "-")
	flags := command.Flags()
	flags.AddFlagSet(command.InheritedFlags())
	found := flags.Lookup(name)
	if len(name) == 1 {
		found = flags.ShorthandLookup(name)
	}
	return found != nil && found.NoOptDefVal == ""
}
