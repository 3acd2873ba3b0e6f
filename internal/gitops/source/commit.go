package source

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/gitops/source/objects"
)

// What is read of a commit: it can have a long message and many signatures.
const (
	maxCommitBytes  = 4 << 20
	maxMessageBytes = 4 << 10
)

// commitObject is a commit as it is stored.
type commitObject struct {
	tree objects.ID
	Commit
}

// readCommit reads a commit, or the commit that a tag names.
func readCommit(set *objects.Set, id objects.ID) (*commitObject, error) {
	// Tags of tags can be chained; the bound ends a loop in crafted objects.
	for range 8 {
		kind, content, err := set.Read(id, maxCommitBytes)
		if err != nil {
			return nil, err
		}
		switch kind {
		case objects.Commit:
			return parseCommit(id, string(content))
		case objects.Tag:
			// A tag of a tag: the advertisement peels only one level.
			line, _, _ := strings.Cut(string(content), "\n")
			next, ok := parseID(strings.TrimPrefix(line, "object "))
			if !ok {
				return nil, errNoCommit
			}
			id = next
		default:
			return nil, errNoCommit
		}
	}
	return nil, errNoCommit
}

// errNoCommit is for a revision that names a file or a folder.
var errNoCommit = errors.New("it names no commit")

// parseCommit reads the lines of a commit. Header lines that continue, such as
// those of a signature, begin with a space and match no key.
func parseCommit(id objects.ID, text string) (*commitObject, error) {
	head, message, _ := strings.Cut(text, "\n\n")
	c := &commitObject{Commit: Commit{ID: id.String()}}
	found := false
	for line := range strings.SplitSeq(head, "\n") {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "tree":
			c.tree, found = parseID(value)
		case "author":
			c.Author, c.When = parsePerson(value)
		}
	}
	if !found {
		return nil, errNoCommit
	}
	message = strings.TrimSpace(message)
	// It is shown to people; the beginning is enough.
	if len(message) > maxMessageBytes {
		message = message[:maxMessageBytes]
	}
	c.Message, c.Author = strings.ToValidUTF8(message, "?"), strings.ToValidUTF8(c.Author, "?")
	return c, nil
}

// parsePerson reads "Name <mail> seconds zone". The zone is ignored: times are
// shown in UTC. A time that cannot be parsed is zero and does not fail the
// commit.
func parsePerson(text string) (string, time.Time) {
	end := strings.LastIndexByte(text, '>')
	if end < 0 {
		return strings.TrimSpace(text), time.Time{}
	}
	person := text[:end+1]
	words := strings.Fields(text[end+1:])
	if len(words) == 0 {
		return person, time.Time{}
	}
	seconds, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return person, time.Time{}
	}
	return person, time.Unix(seconds, 0).UTC()
}
