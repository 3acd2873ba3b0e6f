package source

import (
	"fmt"
	"io"
	"time"
)

// reception is something that a project receives. It counts while it comes, so
// that parallel fetches do not exceed the quota together.
type reception struct {
	quota         *quota
	project, name string
	bytes         int64
}

// begin counts what a project receives. The entry that it is for is not evicted
// meanwhile; an empty name is for what gets its name later.
func (q *quota) begin(project, name string) *reception {
	q.mu.Lock()
	defer q.mu.Unlock()
	if name != "" {
		q.claim(project, name, time.Now())
		q.entries[name].busy++
	}
	return &reception{quota: q, project: project, name: name}
}

// add counts bytes before they are written.
func (r *reception) add(bytes int64) error {
	q := r.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.project(r.project)
	r.bytes += bytes
	p.bytes += bytes
	p.received += bytes
	q.used += bytes
	if q.makeRoom(r.project, r.name) {
		return nil
	}
	option, limit := q.exceeded(r.project)
	refused := errorf(Refused, "", "it needs more disk space than project %s may use: the limit is %s, this fetch has received %s", r.project, sizeText(limit), sizeText(r.bytes))
	if others := p.received - r.bytes; others > 0 {
		refused.Message += ", and other fetches of the project receive " + sizeText(others)
	} else {
		refused.Err = errNoRoom
	}
	refused.Message += fmt.Sprintf(": raise %s, or use a smaller repository or chart", option)
	return refused
}

// restart forgets what was received, and what the entry had, because both were
// thrown away.
func (r *reception) restart() {
	r.quota.mu.Lock()
	defer r.quota.mu.Unlock()
	r.uncount()
	r.quota.setSize(r.name, 0)
}

// uncount stops counting what was received. The lock of the quota is held.
func (r *reception) uncount() {
	p := r.quota.project(r.project)
	p.bytes -= r.bytes
	p.received -= r.bytes
	r.quota.used -= r.bytes
	r.bytes = 0
}

// end stops counting what was received: from now on the size of the entry
// counts, which is the name that it has got.
func (r *reception) end(name string, bytes int64) {
	q := r.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	r.uncount()
	if r.name != "" {
		q.entries[r.name].busy--
	}
	if name != "" {
		q.claim(r.project, name, time.Now())
		q.setSize(name, bytes)
	}
	q.forget(r.project)
}

// reader counts what is read.
func (r *reception) reader(from io.Reader) io.Reader { return &receivingReader{r, from} }

// receivingReader fails when the quota is exceeded.
type receivingReader struct {
	into *reception
	from io.Reader
}

// Read reads and counts.
func (r *receivingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if n > 0 {
		if err := r.into.add(int64(n)); err != nil {
			return 0, err
		}
	}
	return n, err
}

// sizeText is a size for messages, as options have it.
func sizeText(bytes int64) string {
	units := []string{"", "Ki", "Mi"}
	for _, unit := range units {
		if bytes < 10<<10 {
			return fmt.Sprintf("%d%s", bytes, unit)
		}
		bytes >>= 10
	}
	return fmt.Sprintf("%dGi", bytes)
}
