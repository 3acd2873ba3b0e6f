package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// helmEntry is one version of a chart in an index.
type helmEntry struct {
	Version string   `json:"version"`
	URLs    []string `json:"urls"`
	Digest  string   `json:"digest"`
}

// Bounds of an index: large ones are read by lines, and only the part of one
// chart is decoded.
const (
	maxIndexLine  = 1 << 20
	maxIndexPart  = 16 << 20
	maxIndexWhole = 4 << 20
)

// errNoIndex is for a file that is something else.
var errNoIndex = errors.New("it is no index of a Helm repository")

// readHelmIndex reads the versions of one chart.
func readHelmIndex(path, chart string) ([]helmEntry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	entries, err := helmEntries(file, chart)
	if err != nil {
		return nil, indexError(err)
	}
	return entries, nil
}

// checkHelmIndex reports whether a file looks like an index.
func checkHelmIndex(path string) error {
	// No chart has this name, so that all of the index is read.
	_, err := readHelmIndex(path, "")
	return err
}

// indexError keeps refusals of limits. Every other error means that the file is
// no index, which a retry may cure: a proxy or a login page can be in the way.
func indexError(err error) error {
	if problem, ok := errors.AsType[*Error](err); ok {
		return problem
	}
	return &Error{Kind: Unreachable, Message: fmt.Sprintf("its index cannot be read: %v: does the address lead to a Helm repository?", err), Err: err}
}

// helmEntries finds a chart in an index. Indexes are written by helm, as YAML
// with a line for each thing; the part of the chart is found by its indent.
// Others are decoded as a whole, if they are small. The YAML decoder sees the
// lines of one chart only: an index of 100 MB would take a gigabyte of memory
// as a whole.
func helmEntries(file io.ReadSeeker, chart string) ([]helmEntry, error) {
	reader := bufio.NewReaderSize(file, 64<<10)
	first, err := firstByte(reader)
	if err != nil {
		return nil, errNoIndex
	}
	if first == '{' {
		return jsonEntries(reader, chart)
	}
	part, usual, err := findPart(reader, chart)
	if err != nil {
		return nil, err
	}
	if usual {
		if len(part) == 0 {
			return nil, nil
		}
		decoded := map[string][]helmEntry{}
		if err := yaml.Unmarshal(part, &decoded); err == nil {
			return decoded[chart], nil
		}
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return wholeEntries(file, chart)
}

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

// findPart gives the lines of one chart, and whether the index has the usual
// form. Comments and empty lines count as content of the chart, because they
// can be inside of a block scalar. A key that is not plain ends the search with
// usual false.
func findPart(reader *bufio.Reader, chart string) (part []byte, usual bool, err error) {
	inEntries, inChart, indent := false, false, -1
	for {
		line, err := indexLine(reader)
		if errors.Is(err, io.EOF) {
			return part, inEntries, nil
		}
		if err != nil {
			return nil, false, err
		}
		text := strings.TrimLeft(line, " ")
		depth := len(line) - len(text)
		if text == "" || strings.HasPrefix(text, "#") {
			if inChart {
				part = append(append(part, line...), '\n')
			}
			continue
		}
		switch {
		case depth == 0 && !isItem(text):
			if inEntries {
				return part, true, nil
			}
			inEntries = strings.TrimRight(text, " ") == "entries:"
			continue
		case !inEntries:
			continue
		case indent < 0:
			indent = depth
		}
		if depth == indent && !isItem(text) {
			if inChart {
				return part, true, nil
			}
			key, ok := indexKey(text)
			if !ok {
				return nil, false, nil
			}
			inChart = key == chart
		}
		if inChart {
			part = append(append(part, line...), '\n')
			if len(part) > maxIndexPart {
				return nil, false, errorf(Refused, "", "its index has more than %d bytes of the chart", maxIndexPart)
			}
		}
	}
}

// isItem reports whether a line begins an item of a list.
func isItem(text string) bool { return strings.HasPrefix(text, "- ") || text == "-" }

// indexLine reads a line without its end. A line above maxIndexLine is refused:
// the buffer would otherwise grow with the file.
func indexLine(reader *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, isPrefix, err := reader.ReadLine()
		if err != nil {
			return "", err
		}
		if line = append(line, part...); len(line) > maxIndexLine {
			return "", errorf(Refused, "", "its index has a line of more than %d bytes", maxIndexLine)
		}
		if !isPrefix {
			return string(line), nil
		}
	}
}

// indexKey reads a line that has a key only. It is false for anything that
// needs a YAML parser, such as an anchor.
func indexKey(text string) (string, bool) {
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

// wholeEntries decodes all of a small index.
func wholeEntries(file io.Reader, chart string) ([]helmEntry, error) {
	// Only a small index is parsed as a whole: YAML takes some ten times its
	// size in memory.
	content, err := io.ReadAll(io.LimitReader(file, maxIndexWhole+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxIndexWhole {
		return nil, errorf(Refused, "", "its index has an unusual form and more than %d bytes: write it with helm repo index", maxIndexWhole)
	}
	var decoded struct {
		Entries map[string][]helmEntry `json:"entries"`
	}
	if err := yaml.Unmarshal(content, &decoded); err != nil || decoded.Entries == nil {
		return nil, errNoIndex
	}
	return decoded.Entries[chart], nil
}

// jsonEntries reads an index that is JSON, one chart at a time. Charts behind
// the wanted one are decoded too, so that an index that is cut off in them is
// an error.
func jsonEntries(reader io.Reader, chart string) ([]helmEntry, error) {
	decoder := json.NewDecoder(reader)
	if _, err := decoder.Token(); err != nil {
		return nil, errNoIndex
	}
	found := false
	var entries []helmEntry
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, errNoIndex
		}
		if key != "entries" {
			if err := decoder.Decode(new(json.RawMessage)); err != nil {
				return nil, errNoIndex
			}
			continue
		}
		found = true
		if entries, err = jsonCharts(decoder, chart); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, errNoIndex
	}
	return entries, nil
}

// jsonCharts reads the object "entries" one chart at a time and keeps only the
// wanted one, so that memory does not grow with the index.
func jsonCharts(decoder *json.Decoder, chart string) ([]helmEntry, error) {
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, errNoIndex
	}
	var entries []helmEntry
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, errNoIndex
		}
		var part json.RawMessage
		if err := decoder.Decode(&part); err != nil {
			return nil, errNoIndex
		}
		if key == chart && !bytes.Equal(part, []byte("null")) {
			if err := json.Unmarshal(part, &entries); err != nil {
				return nil, errNoIndex
			}
		}
	}
	_, err := decoder.Token()
	return entries, err
}
