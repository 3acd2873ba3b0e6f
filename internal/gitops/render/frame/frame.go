// Package frame is how a renderer and its workers talk: messages with a type
// and a length, over two pipes.
//
// It promises that a message is read completely or not at all, and that no
// more memory is taken than has arrived. It refuses messages that are longer
// than the reader allows.
package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Type is the type of a message.
type Type byte

// What the renderer sends.
const (
	Hello   Type = 'H' // first of all: how the worker limits itself
	Request Type = 'R' // a job
	Content Type = 'C' // content of a file, as it is
	Listing Type = 'L' // entries of a folder, or one entry
	Missing Type = 'M' // there is no such path
	Refused Type = 'X' // a refusal.Refusal: why a path is not read
	Module  Type = 'S' // a tree.InSubmodule: a path leads into a submodule
	Pointer Type = 'P' // a tree.Pointer: a file is kept by Git LFS
	Facts   Type = 'F' // an OpenedTree, a list of clusters or other input of an ApplicationSet, or an object of the cluster
)

// What a worker sends.
const (
	Ready  Type = 'h' // response to Hello: what limits are in force
	Stat   Type = 's' // request for the kind of a path
	Read   Type = 'r' // request for the content of a file
	List   Type = 'l' // request for the entries of a folder
	Chunk  Type = 'k' // request for a part of the one file of a job
	Tree   Type = 't' // request for the files of a repository, of an ApplicationSet
	Fleet  Type = 'c' // request for clusters, of an ApplicationSet
	Fetch  Type = 'f' // request for other input of an ApplicationSet
	Lookup Type = 'u' // request for an object of the cluster
	Object Type = 'o' // one rendered object as JSON, or a part of another result
	Done   Type = 'd' // the job is done
	Failed Type = 'e' // the job is not done, and why
)

// ErrTooLong is a message that is longer than the reader allows.
var ErrTooLong = errors.New("a message is longer than allowed")

const header = 5 // type, length

// Writer sends messages. They are sent when Flush is called.
type Writer struct {
	out *bufio.Writer
}

// NewWriter makes a Writer.
func NewWriter(out io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(out, 32<<10)} }

// Send adds a message.
func (w *Writer) Send(kind Type, payload []byte) error {
	if uint64(len(payload)) > 1<<31 {
		return ErrTooLong
	}
	var head [header]byte
	head[0] = byte(kind)
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := w.out.Write(head[:]); err != nil {
		return err
	}
	_, err := w.out.Write(payload)
	return err
}

// SendJSON adds a message that is a value.
func (w *Writer) SendJSON(kind Type, value any) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.Send(kind, payload)
}

// Flush sends what was added.
func (w *Writer) Flush() error { return w.out.Flush() }

// Reader receives messages.
type Reader struct {
	in    *bufio.Reader
	limit int64
}

// NewReader makes a Reader of messages up to a limit of bytes.
func NewReader(in io.Reader, limit int64) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 32<<10), limit: limit}
}

// Next is the next message. The payload is the caller's. The end of the input
// between two messages is [io.EOF].
func (r *Reader) Next() (Type, []byte, error) {
	var head [header]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return 0, nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	if length > r.limit {
		return 0, nil, fmt.Errorf("%w: %d bytes, the most is %d", ErrTooLong, length, r.limit)
	}
	if length <= small {
		payload := make([]byte, length)
		_, err := io.ReadFull(r.in, payload)
		return Type(head[0]), payload, inside(err)
	}
	// The buffer grows with what arrives, not with what was announced.
	var payload bytes.Buffer
	copied, err := io.Copy(&payload, io.LimitReader(r.in, length))
	if err == nil && copied < length {
		err = io.ErrUnexpectedEOF
	}
	return Type(head[0]), payload.Bytes(), err
}

// small is a length that may be announced without being sent.
const small = 64 << 10

// inside makes the end of the input an error: it was in the middle of a
// message.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Expect is the payload of the next message, which has to be of one type.
func (r *Reader) Expect(kind Type) ([]byte, error) {
	got, payload, err := r.Next()
	if err == nil && got != kind {
		err = fmt.Errorf("a message of type %q came in place of %q", got, kind)
	}
	return payload, err
}
