/** What is said of runs that were lost with their node; pure. */
