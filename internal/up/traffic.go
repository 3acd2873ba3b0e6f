package up

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// trafficSecretFile has the secret that lets the agent query the edge for its
// traffic. It is in the agent's folder.
const trafficSecretFile = "traffic-secret"

// trafficSecret returns the path of the secret.
func (s *scene) trafficSecret() string {
	return filepath.Join(s.state.path(agentName), trafficSecretFile)
}

// provideTrafficSecret creates the secret once, in whichever part starts first.
func (s *scene) provideTrafficSecret() error {
	name := filepath.Join(agentName, trafficSecretFile)
	_, err := s.state.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.state.root.MkdirAll(agentName, 0o700); err == nil {
			// Two texts have at least 256 bits of entropy.
			err = s.state.writeSynced(name, []byte(rand.Text()+rand.Text()+"\n"))
		}
	}
	if err != nil {
		return fmt.Errorf("make the secret of the edge and the agent: %w", err)
	}
	return nil
}
