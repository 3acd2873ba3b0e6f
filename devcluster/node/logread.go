package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"
)

// errLogLimit ends a copy that has reached limitBytes. It never leaves copyTo.
var errLogLimit = errors.New("the limit of bytes is reached")

// logQuery holds the options of one request for a log, the PodLogOptions of the
// API.
type logQuery struct {
	follow     bool
	previous   bool
	timestamps bool
	tail       int64     // lines from the end; -1 for all
	limit      int64     // bytes; -1 for all
	since      time.Time // zero for all
	stream     string    // "stdout" or "stderr"; empty for both
}

// parseLogQuery reads the query parameters that the API server sends. An absent
// parameter has the API's default; an invalid one is an error for a response
// with status 400.
func parseLogQuery(values url.Values, now time.Time) (logQuery, error) {
	q := logQuery{tail: -1, limit: -1}
	for name, to := range map[string]*bool{"follow": &q.follow, "previous": &q.previous, "timestamps": &q.timestamps} {
		if text := values.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return q, fmt.Errorf("%s=%q is neither true nor false", name, text)
			}
			*to = value
		}
	}
	seconds := int64(-1)
	for name, to := range map[string]*int64{"tailLines": &q.tail, "limitBytes": &q.limit, "sinceSeconds": &seconds} {
		if text := values.Get(name); text != "" {
			value, err := strconv.ParseInt(text, 10, 64)
			if err != nil || value < 0 {
				return q, fmt.Errorf("%s=%q is not a number from 0 up", name, text)
			}
			*to = value
		}
	}
	if seconds >= 0 {
		// Longer than any log is kept, and short enough not to overflow.
		const century = 100 * 365 * 24 * 3600
		q.since = now.Add(-time.Duration(min(seconds, century)) * time.Second)
	}
	if text := values.Get("sinceTime"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return q, fmt.Errorf("sinceTime=%q is not a time like 2006-01-02T15:04:05Z", text)
		}
		q.since = since
	}
	switch values.Get("stream") {
	case "", "All":
	case "Stdout":
		q.stream = "stdout"
	case "Stderr":
		q.stream = "stderr"
	default:
		return q, fmt.Errorf("stream=%q is none of All, Stdout and Stderr", values.Get("stream"))
	}
	return q, nil
}

// copyTo writes the log as the query selects it. When it follows, it returns
// when the run has ended or ctx is done. It calls flush whenever it has written
// all records that exist.
func (f *logFile) copyTo(ctx context.Context, out io.Writer, flush func() error, q logQuery) error {
	// The open files stay readable when the log is rotated or deleted
	// meanwhile.
	older, current, turns, err := f.parts()
	if err != nil {
		return err
	}
	defer func() {
		older.Close() // Close of a nil *os.File only returns an error
		current.Close()
	}()
	p := &logPrinter{out: out, query: q, left: q.limit}
	if q.tail >= 0 {
		if p.skip, err = linesBefore(q.tail, older, current); err != nil {
			return err
		}
	}
	if older != nil {
		if err := p.drain(newRecordReader(older)); err != nil {
			return limitIsEnd(err)
		}
	}
	records := newRecordReader(current)
	for {
		// The state is taken before the read: all records up to it are in the
		// file, and a later one closes state.changed. So no record is missed
		// between the read and the wait.
		state := f.state()
		if err := p.drain(records); err != nil {
			return limitIsEnd(err)
		}
		if err := flush(); err != nil {
			return err
		}
		switch {
		case !q.follow:
			return nil
		case state.turns != turns:
			// The file was rotated, and the open one has been read to its end.
			// After more than one rotation the older part is new too; what was
			// rotated out before it is lost. The count is that of the files just
			// opened: another rotation may have followed state.
			before := turns
			older.Close()
			current.Close()
			if older, current, turns, err = f.parts(); err != nil {
				return err
			}
			if turns > before+1 && older != nil {
				if err := p.drain(newRecordReader(older)); err != nil {
					return limitIsEnd(err)
				}
			}
			records = newRecordReader(current)
		case state.ended:
			return nil
		default:
			select {
			case <-ctx.Done():
				return nil
			case <-state.changed:
			}
		}
	}
}

// limitIsEnd turns errLogLimit into the regular end of a copy.
func limitIsEnd(err error) error {
	if errors.Is(err, errLogLimit) {
		return nil
	}
	return err
}

// linesBefore counts the lines before the last n, and rewinds the files.
// Partial records belong to the line that a full one ends, which may be in the
// next file; an unfinished line at the end counts as one.
func linesBefore(n int64, files ...*os.File) (int64, error) {
	var lines int64
	open := false
	for _, file := range files {
		if file == nil {
			continue
		}
		records := newRecordReader(file)
		for {
			rec, err := records.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return 0, err
			}
			if open = rec.partial; !open {
				lines++
			}
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
	}
	if open {
		lines++
	}
	return max(0, lines-n), nil
}

// logRecord is one stored line, or a part of one. Its slices are valid until
// the next record is read.
type logRecord struct {
	time    []byte
	stream  []byte
	partial bool
	text    []byte
}

// recordReader reads records from a file that may still grow.
type recordReader struct {
	in   *bufio.Reader
	part []byte // of a record whose end has not been written yet
}

// newRecordReader returns a reader whose buffer holds the longest record: the
// text and its header.
func newRecordReader(file *os.File) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(file, 2*logLineLimit)}
}

// next returns the next complete record, or io.EOF when there is none yet; it
// may be called again after more has been written. Lines that are no record are
// skipped: a machine that lost power may leave half of one.
func (r *recordReader) next() (logRecord, error) {
	for {
		line, err := r.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull || err == io.EOF {
			// The bound keeps a corrupt file without newlines from filling the
			// memory.
			if len(r.part)+len(line) <= 4*logLineLimit {
				r.part = append(r.part, line...)
			}
			if err == io.EOF {
				return logRecord{}, io.EOF
			}
			continue
		}
		if err != nil {
			return logRecord{}, err
		}
		if len(r.part) > 0 {
			line = append(r.part, line...)
			r.part = nil
		}
		if rec, ok := parseRecord(line); ok {
			return rec, nil
		}
	}
}

// parseRecord splits a line into its four fields; ok is false when it has fewer
// or an unknown tag. The text may contain spaces.
func parseRecord(line []byte) (logRecord, bool) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	at, rest, ok1 := bytes.Cut(line, []byte{' '})
	stream, rest, ok2 := bytes.Cut(rest, []byte{' '})
	tag, text, ok3 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 || !ok3 || len(at) == 0 {
		return logRecord{}, false
	}
	partial := string(tag) == tagPartial
	return logRecord{time: at, stream: stream, partial: partial, text: text}, partial || string(tag) == tagFull
}

// logPrinter writes records in the form that the query selects.
type logPrinter struct {
	out   io.Writer
	query logQuery
	skip  int64 // lines still to be passed over
	left  int64 // bytes that may still be written; negative for any number
	open  bool  // the last line has not ended
}

// drain prints all records up to the current end of the file.
func (p *logPrinter) drain(records *recordReader) error {
	for {
		rec, err := records.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.print(rec); err != nil {
			return err
		}
	}
}

// print writes one record if it passes the filters. Partial records are joined:
// only the first gets a timestamp, only the last a newline.
func (p *logPrinter) print(rec logRecord) error {
	if p.skip > 0 {
		if !rec.partial {
			p.skip--
		}
		return nil
	}
	if p.query.stream != "" && string(rec.stream) != p.query.stream {
		return nil
	}
	if !p.query.since.IsZero() {
		at, err := time.Parse(logTime, string(rec.time))
		if err != nil || at.Before(p.query.since) {
			return nil
		}
	}
	var line []byte
	if p.query.timestamps && !p.open {
		line = append(append(line, rec.time...), ' ')
	}
	line = append(line, rec.text...)
	if p.open = rec.partial; !p.open {
		line = append(line, '\n')
	}
	return p.write(line)
}

// write enforces limitBytes, which may cut a line. It returns errLogLimit with
// the write that reaches the limit.
func (p *logPrinter) write(line []byte) error {
	if p.left >= 0 && int64(len(line)) >= p.left {
		if _, err := p.out.Write(line[:p.left]); err != nil {
			return err
		}
		p.left = 0
		return errLogLimit
	}
	if p.left > 0 {
		p.left -= int64(len(line))
	}
	_, err := p.out.Write(line)
	return err
}
