// Texts for people.
#pragma once
#include <stddef.h>

// Names of files, and names in them, come from anywhere, and messages go to terminals and logs, line by line. What is
// no valid UTF-8, and characters that steer a terminal, end a line, or turn the direction of writing, become \xNN a
// byte, in place; what does not fit any more is cut off.
void text_escape(char *text, size_t size_B);
