package h1

import "net"

// Nobody looks at the data of a long body that is passed on as it is, so it need not come into
// the memory of the edge: the kernel moves it from one socket to the other.

// spliceFrom is how much data has to come for that to be worth it: less fits a buffer, and goes
// out with the head in one write.
const spliceFrom = 64 << 10

// Splicer is a Socket that can be given data without the edge reading it.
type Splicer interface {
	Socket
	// PipeFrom lends a pipe from a connection, nil if there is none.
	PipeFrom(from net.Conn) Pipe
}

// Pipe has data in the kernel on its way from one connection to another. Both are used as by
// Read and Write, with their deadlines.
type Pipe interface {
	// Fill takes what there is of the source, at most so much, and waits for it. The pipe has
	// to be empty.
	Fill(most int64) (int, error)
	// Drain writes all of it.
	Drain() error
	// Close gives the pipe back.
	Close()
}

// pipe lends a pipe for the data that comes next, if that is long and nothing of it is looked at;
// nil otherwise.
func (t *Transfer) pipe() Pipe {
	b := t.Body
	if b.state != bodyData || b.left < spliceFrom || t.Encode || t.Most > 0 || t.PauseAfter > 0 || t.From.times.Rate > 0 || t.From.r < t.From.w {
		return nil
	}
	to, ok := t.To.socket.(Splicer)
	if !ok {
		return nil
	}
	return to.PipeFrom(t.From.conn)
}

// splice is a piece of data on its way.
type splice struct {
	pipe Pipe
	most int64
	n    int
}

func (s *splice) fill() (err error) {
	s.n, err = s.pipe.Fill(s.most)
	return err
}

// splice passes the data of a body on, or of one of its chunks.
func (t *Transfer) splice(pipe Pipe) error {
	defer pipe.Close()
	from, piece := t.From, splice{pipe: pipe}
	for t.Body.state == bodyData {
		piece.most = t.Body.left
		if err := from.readWith(from.lazyDeadline(from.times.Body), &piece); err != nil {
			return err
		}
		err := t.To.arm()
		if err == nil {
			err = pipe.Drain()
		}
		if err != nil {
			return &WriteError{err}
		}
		t.Body.skip(int64(piece.n))
	}
	return nil
}
