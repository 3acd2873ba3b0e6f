package helmindex

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"slipway.dev/slipway/api/refusal"
)

// Entry is one version of a chart. Of several addresses only the first is kept:
// Helm uses no other.
type Entry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls,omitempty"`
	Digest  string   `json:"digest,omitempty"`
}

// Bounds of the compact form. The versions of a chart are split into several
// lines, so that a reader needs a small buffer.
const (
	lineBytes  = 64 << 10
	entryBytes = 16 << 10
	// MaxChart bounds the compact form of one chart: some 20,000 versions.
	MaxChart = 4 << 20
)

// ErrNoIndex is for a file that is something else.
var ErrNoIndex = errors.New("it is no index of a Helm repository")

// refused is a refusal of an index, or of a part of it.
func refused(format string, args ...any) error {
	return refusal.New("index.yaml", refusal.TooLarge, format, args...)
}

// Compact returns the compact form of an index, which has at most limit bytes.
// An error is a *[refusal.Refusal] if a limit is exceeded, and of
// [ErrNoIndex] or the reader otherwise.
func Compact(index io.ReadSeeker, limit int64) ([]byte, error) {
	into := &compacted{limit: limit}
	reader := bufio.NewReaderSize(index, 64<<10)
	first, err := firstByte(reader)
	switch {
	case err != nil:
		return nil, ErrNoIndex
	case first == '{':
		err = readJSON(reader, into)
	default:
		err = readLines(reader, into)
	}
	if errors.Is(err, errUnusual) {
		into.reset()
		err = readWhole(index, into)
	}
	if err == nil {
		err = into.flush()
	}
	return into.text, err
}

// compacted is the compact form as it is written.
type compacted struct {
	limit int64
	text  []byte
	// line is the part of chart that is not in the text yet.
	chart string
	line  []byte
}

// reset drops everything, for another attempt.
func (c *compacted) reset() { *c = compacted{limit: c.limit} }

// add writes one version of a chart.
func (c *compacted) add(chart string, entry Entry) error {
	if len(entry.URLs) > 1 {
		entry.URLs = entry.URLs[:1]
	}
	encoded, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if len(encoded)+len(chart) > entryBytes {
		return refused("a version of the chart %.80q has more than %d bytes of addresses", chart, entryBytes)
	}
	if chart != c.chart || len(c.line)+len(encoded) > lineBytes {
		if err := c.flush(); err != nil {
			return err
		}
		c.chart = chart
	}
	if len(c.line) > 0 {
		c.line = append(c.line, ',')
	}
	c.line = append(c.line, encoded...)
	return nil
}

// flush ends the line of the chart: its name and a list, both JSON.
func (c *compacted) flush() error {
	if len(c.line) == 0 {
		return nil
	}
	c.text = append(append(c.text, lineStart(c.chart)...), c.line...)
	c.text = append(c.text, "]\n"...)
	c.line = c.line[:0]
	if int64(len(c.text)) > c.limit {
		return refused("it has more than %d bytes of versions and addresses: raise sources.indexLimit of the agent, or split the repository", c.limit)
	}
	return nil
}

// lineStart is what the lines of a chart begin with. JSON has no spaces behind
// the name, so that it is not the start of another name.
func lineStart(chart string) []byte {
	name, _ := json.Marshal(chart) // text can always be encoded
	return append(name, " ["...)
}

// Find returns the versions of a chart in a compact form, in the order of the
// index. Without such a chart they are none.
func Find(compact io.Reader, chart string) ([]Entry, error) {
	lines := bufio.NewScanner(compact)
	lines.Buffer(make([]byte, 0, lineBytes), 2*(lineBytes+entryBytes))
	start, total := lineStart(chart), 0
	var found []Entry
	for lines.Scan() {
		list, ok := bytes.CutPrefix(lines.Bytes(), start)
		if !ok {
			continue
		}
		if total += len(list); total > MaxChart {
			return nil, refused("the chart %.80q has more than %d bytes of versions and addresses: remove old versions from the index", chart, MaxChart)
		}
		var more []Entry
		if err := json.Unmarshal(slices.Concat([]byte("["), list), &more); err != nil {
			return nil, fmt.Errorf("the compact index is damaged: %w", err)
		}
		found = append(found, more...)
	}
	return found, lines.Err()
}

// readJSON reads an index that is JSON, one version at a time. All of it is
// read, so that an index that is cut off is an error.
func readJSON(reader io.Reader, into *compacted) error {
	decoder := json.NewDecoder(reader)
	if _, err := decoder.Token(); err != nil {
		return ErrNoIndex
	}
	found := false
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return ErrNoIndex
		}
		if key != "entries" {
			if err := decoder.Decode(new(json.RawMessage)); err != nil {
				return ErrNoIndex
			}
			continue
		}
		found = true
		if err := readJSONCharts(decoder, into); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil || !found {
		return ErrNoIndex
	}
	return nil
}

// readJSONCharts reads the object "entries".
func readJSONCharts(decoder *json.Decoder, into *compacted) error {
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return ErrNoIndex
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return ErrNoIndex
		}
		chart, _ := key.(string) // keys of objects are
		start, err := decoder.Token()
		if err == nil && start == nil {
			continue // a chart that is null has no versions
		}
		if err != nil || start != json.Delim('[') {
			return ErrNoIndex
		}
		for decoder.More() {
			var entry Entry
			if err := decoder.Decode(&entry); err != nil {
				return ErrNoIndex
			}
			if err := into.add(chart, entry); err != nil {
				return err
			}
		}
		if _, err := decoder.Token(); err != nil {
			return ErrNoIndex
		}
	}
	if _, err := decoder.Token(); err != nil {
		return ErrNoIndex
	}
	return nil
}
