package hub

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"slipway.dev/slipway/internal/secret"
)

// maxLine bounds a line of the control stream.
const maxLine = 16 << 10

// presentation is a line that an agent writes.
type presentation struct {
	// Token replaces the one that the connection was made with.
	Token secret.Text
	// Moved says that the agent does not need the connection any longer.
	Moved bool
}

// notice is a line that the hub writes.
type notice struct {
	// Replicas is how many replicas the platform has.
	Replicas int `json:"replicas,omitempty"`
	// Drain asks the agent to connect to another replica.
	Drain bool `json:"drain,omitempty"`
	// Refused says why the connection is about to be closed.
	Refused string `json:"refused,omitempty"`
}

// readPresentation reads a line. Fields that it does not know are of a newer agent.
// Errors do not show the line: there is a token in it.
func readPresentation(r *bufio.Reader) (presentation, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return presentation{}, fmt.Errorf("a line of the control stream is longer than %d bytes", maxLine)
	}
	if err != nil {
		return presentation{}, err
	}
	var p struct {
		Token string `json:"token"`
		Moved bool   `json:"moved"`
	}
	if json.Unmarshal(line, &p) != nil {
		return presentation{}, errors.New("a line of the control stream is not JSON as it should be")
	}
	return presentation{Token: secret.New(p.Token), Moved: p.Moved}, nil
}

// writeNotice writes a line.
func writeNotice(w io.Writer, n notice) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
