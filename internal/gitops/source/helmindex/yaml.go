package helmindex

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Bounds of an index in YAML. An index is read by lines, and only the lines of
// versions, addresses and digests are decoded. Decoding takes some forty times
// the size of the text in memory.
const (
	maxLine  = 1 << 20
	maxEntry = 1 << 20
	maxWhole = 4 << 20
)

// errUnusual is for YAML that is not written as Helm writes it. Only a decoder
// of all of it can read that.
var errUnusual = errors.New("the index has an unusual form")

// firstByte returns the first byte that is not white space, without consuming
// it. It decides between JSON and YAML.
func firstByte(reader *bufio.Reader) (byte, error) {
	for {
		b, err := reader.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
			return b, reader.UnreadByte()
		}
	}
}

// readLines reads an index as helm writes it: block style, where the indent of
// a line shows what it belongs to.
func readLines(reader *bufio.Reader, into *compacted) error {
	l := &lines{into: into, chartIndent: -1}
	for {
		line, err := readLine(reader)
		if errors.Is(err, io.EOF) {
			if !l.inEntries {
				return errUnusual
			}
			return l.endEntry()
		}
		if err == nil {
			err = l.line(line)
		}
		if errors.Is(err, errEnd) {
			return l.endEntry()
		}
		if err != nil {
			return err
		}
	}
}

// errEnd is the end of the charts in an index.
var errEnd = errors.New("no more charts")

// lines is the place in an index that is read by lines.
type lines struct {
	into *compacted

	inEntries   bool
	chartIndent int // -1 before the first chart
	chart       string
	hasChart    bool
	// itemIndent is the indent of the dashes of the chart's versions; -1 before
	// the first.
	itemIndent int
	entry      entryLines
}

// line takes the next line. Comments and empty lines count as content, because
// they can be inside of a block scalar.
func (l *lines) line(line string) error {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	switch {
	case text == "" || strings.HasPrefix(text, "#"):
		if l.entry.open {
			return l.entry.more(line)
		}
		return nil
	case indent == 0 && !isItem(text):
		if l.inEntries {
			return errEnd
		}
		l.inEntries = strings.TrimRight(text, " ") == "entries:"
		return nil
	case !l.inEntries:
		return nil
	case l.chartIndent < 0:
		l.chartIndent = indent
	}
	if indent == l.chartIndent && !isItem(text) {
		return l.beginChart(text)
	}
	return l.inChart(line, text, indent)
}

// beginChart takes the line with the name of a chart.
func (l *lines) beginChart(text string) error {
	if err := l.endEntry(); err != nil {
		return err
	}
	name, ok := plainKey(text)
	if !ok {
		return errUnusual
	}
	l.chart, l.hasChart, l.itemIndent = name, true, -1
	return nil
}

// inChart takes a line below the name of a chart.
func (l *lines) inChart(line, text string, indent int) error {
	if !l.hasChart {
		return errUnusual
	}
	if l.itemIndent < 0 {
		l.itemIndent = indent
	}
	if indent < l.itemIndent || indent == l.itemIndent && !isItem(text) {
		return errUnusual
	}
	if indent > l.itemIndent {
		return l.entry.next(line, text, indent)
	}
	if err := l.endEntry(); err != nil {
		return err
	}
	return l.entry.begin(text, indent)
}

// endEntry decodes the version that was read.
func (l *lines) endEntry() error {
	if !l.entry.open {
		return nil
	}
	entry, err := l.entry.decode()
	if err != nil {
		return err
	}
	return l.into.add(l.chart, entry)
}

// entryLines is the lines of one version.
type entryLines struct {
	open bool
	// all are all lines, and wanted those of the keys that Entry has. wanted is
	// decoded if the entry is in block style.
	all, wanted []byte
	keyIndent   int // -1 before the first key
	keep        bool
	unusual     bool
}

// begin takes the line with the dash. The dash is replaced by a space: what is
// behind it has the indent of the other keys.
func (e *entryLines) begin(text string, indent int) error {
	*e = entryLines{open: true, all: e.all[:0], wanted: e.wanted[:0], keyIndent: -1}
	rest := " " + text[1:]
	inner := strings.TrimLeft(rest, " ")
	if inner == "" {
		return nil
	}
	indent += len(rest) - len(inner)
	return e.next(strings.Repeat(" ", indent)+inner, inner, indent)
}

// next takes another line. Lines below a key are deeper than the key, but for
// the items of a list.
func (e *entryLines) next(line, text string, indent int) error {
	if !e.open {
		return errUnusual
	}
	if e.keyIndent < 0 {
		e.keyIndent = indent
	}
	if indent == e.keyIndent && !isItem(text) {
		key, _, found := strings.Cut(text, ":")
		e.keep = key == "version" || key == "urls" || key == "digest"
		e.unusual = e.unusual || !found || !isWord(key)
	}
	e.unusual = e.unusual || indent < e.keyIndent
	return e.more(line)
}

// more keeps a line.
func (e *entryLines) more(line string) error {
	if e.all = append(append(e.all, line...), '\n'); len(e.all) > maxEntry {
		return refused("a version of a chart has more than %d bytes", maxEntry)
	}
	if e.keep {
		e.wanted = append(append(e.wanted, line...), '\n')
	}
	return nil
}

// decode decodes the lines and ends the entry. A version that needs its other
// lines, or other parts of the index, is unusual.
func (e *entryLines) decode() (entry Entry, err error) {
	e.open = false
	if !e.unusual && yaml.Unmarshal(e.wanted, &entry) == nil {
		return entry, nil
	}
	entry = Entry{}
	if yaml.Unmarshal(e.all, &entry) != nil {
		return entry, errUnusual
	}
	return entry, nil
}

// isItem reports whether a line begins an item of a list.
func isItem(text string) bool { return strings.HasPrefix(text, "- ") || text == "-" }

// isWord reports whether a key is letters only, as all that Helm writes.
func isWord(key string) bool {
	return key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// readLine reads a line without its end. A line above maxLine is refused: the
// buffer would otherwise grow with the file.
func readLine(reader *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, isPrefix, err := reader.ReadLine()
		if err != nil {
			return "", err
		}
		if line = append(line, part...); len(line) > maxLine {
			return "", refused("it has a line of more than %d bytes", maxLine)
		}
		if !isPrefix {
			return string(line), nil
		}
	}
}

// plainKey reads a line that has a key only. It is false for anything that
// needs a YAML parser, such as an anchor.
func plainKey(text string) (string, bool) {
	key, found := strings.CutSuffix(strings.TrimRight(text, " "), ":")
	if !found {
		return "", false
	}
	if strings.HasPrefix(key, `"`) {
		unquoted, err := strconv.Unquote(key)
		return unquoted, err == nil
	}
	if inner, found := strings.CutPrefix(key, "'"); found {
		inner, found = strings.CutSuffix(inner, "'")
		return strings.ReplaceAll(inner, "''", "'"), found
	}
	// What else YAML gives a meaning is left to its decoder.
	return key, key != "" && !strings.ContainsAny(key, ":{}[],&*!|>%@`?\\\"'#")
}

// readWhole decodes all of a small index.
func readWhole(index io.ReadSeeker, into *compacted) error {
	if _, err := index.Seek(0, io.SeekStart); err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(index, maxWhole+1))
	if err != nil {
		return err
	}
	if len(content) > maxWhole {
		return refused("it has an unusual form and more than %d bytes: write it with helm repo index", maxWhole)
	}
	var decoded struct {
		Entries map[string][]Entry `json:"entries"`
	}
	if err := yaml.Unmarshal(content, &decoded); err != nil || decoded.Entries == nil {
		return ErrNoIndex
	}
	for _, chart := range slices.Sorted(maps.Keys(decoded.Entries)) {
		for _, entry := range decoded.Entries[chart] {
			if err := into.add(chart, entry); err != nil {
				return err
			}
		}
	}
	return nil
}
