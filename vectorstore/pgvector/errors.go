package pgvector

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-go/tidemark/vectorstore"
)

// ErrTable is what an error of [New] is when the table that is there does not fit the options.
var ErrTable = errors.New("pgvector: the table does not fit")

func valueError(format string, args ...any) error {
	return vectorstore.Permanent(fmt.Errorf("%w: %s", vectorstore.ErrValue, fmt.Sprintf(format, args...)))
}

func objectError(id vectorstore.ID, err error) error {
	return fmt.Errorf("pgvector: object %s: %w", id, err)
}

// refused reports whether Postgres says that the data is at fault: class 22 is bad data, 54 is beyond a limit of the program.
func refused(err error) bool {
	var failed *pgconn.PgError
	return errors.As(err, &failed) && (strings.HasPrefix(failed.Code, "22") || strings.HasPrefix(failed.Code, "54"))
}

func hash(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()
}
