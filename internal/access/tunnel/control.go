package tunnel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxNotice bounds a line of the control stream.
const maxNotice = 16 << 10

// presentation is a line that the agent writes.
type presentation struct {
	// Token replaces the one that the connection was made with.
	Token string `json:"token,omitempty"`
	// Moved says that the agent does not need the connection any longer.
	Moved bool `json:"moved,omitempty"`
}

// notice is a line that the platform writes.
type notice struct {
	// Replicas is how many replicas the platform has.
	Replicas int `json:"replicas,omitempty"`
	// Drain asks the agent to connect to another replica.
	Drain bool `json:"drain,omitempty"`
	// Refused says why the platform is about to close the connection.
	Refused string `json:"refused,omitempty"`
}

// readNotice reads a line. Fields that it does not know are of a newer platform.
func readNotice(r *bufio.Reader) (notice, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return notice{}, fmt.Errorf("a line of the control stream is longer than %d bytes", maxNotice)
	}
	if err != nil {
		return notice{}, err
	}
	var n notice
	if err := json.Unmarshal(line, &n); err != nil {
		return notice{}, fmt.Errorf("read the control stream: %w", err)
	}
	return n, nil
}

// writePresentation writes a line.
func writePresentation(w io.Writer, p presentation) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
