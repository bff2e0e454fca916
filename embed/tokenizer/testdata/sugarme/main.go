// Command sugarme prints how many tokens a second of processor time github.com/sugarme/tokenizer makes of the texts of a file, each
// a line, with a tokenizer.json:
//
//	go run . tokenizer.json texts.txt
//
// It is a module of its own, so that the project does not depend on that package.
package main

import (
	"fmt"
	"log"
	"os"
	"strings"
	"syscall"

	"github.com/sugarme/tokenizer/pretrained"
)

func main() {
	t, err := pretrained.FromFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	data, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	t.WithPadding(nil)
	t.WithTruncation(nil)
	texts := strings.Split(strings.TrimSpace(string(data)), "\n")
	tokens, began := 0, processorTime()
	for processorTime()-began < 1 {
		for _, s := range texts {
			enc, err := t.EncodeSingle(s, true)
			if err != nil {
				log.Fatal(err)
			}
			tokens += len(enc.Ids)
		}
	}
	fmt.Println(float64(tokens) / (processorTime() - began))
}

// processorTime is what this process has used, in seconds.
func processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
